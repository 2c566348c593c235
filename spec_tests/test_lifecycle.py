"""The lifecycle viewer shows what a recorded run of 2.2 shows, and says why a hook did not fire."""

import importlib
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from . import facts, forked, listing

torch = pytest.importorskip("torch")

RECEIVERS = {"c1": "callback First", "c2": "callback Second", "M": "module", "D": "datamodule"}
INNER = {"to", "eval", "train", "zero_grad", "forward", "clip_gradients"}  # called by hooks
SHORT = ["--train-batches", "2"]
RECORDED = [  # scenario of the recorded runs, and what is typed for it
    ("fit_basic", ["--epochs", "1", *SHORT]),
    ("fit_no_sanity", ["--epochs", "1", *SHORT, "--sanity", "0"]),
    ("fit_two_epochs", [*SHORT, "--sanity", "0"]),
    ("fit_accumulate_2", ["--epochs", "1", "--train-batches", "3", "--accumulate", "2"]),
    ("fit_two_epochs_check_val_every_2", [*SHORT, "--set", "check_val_every_n_epoch=2"]),
    ("fit_val_check_interval_half", ["--epochs", "1", "--sanity", "0", "--set",
                                     "val_check_interval=0.5"]),
    ("fit_max_steps_3_over_epochs_of_2", ["--epochs", "10", *SHORT, "--sanity", "0", "--set",
                                          "max_steps=3"]),
    ("limit_val_batches_0", ["--epochs", "1", *SHORT, "--val-batches", "0"]),
    ("limit_train_batches_0", ["--epochs", "1", "--train-batches", "0"]),
    ("lr_scheduler_interval_epoch", [*SHORT, "--sanity", "0", "--val-batches", "1",
                                     "--scheduler", "epoch"]),
    ("datamodule_hooks", ["--epochs", "1", *SHORT, "--datamodule"]),
    ("validate", ["validate"]), ("test", ["test"]), ("predict", ["predict"]),
]


@pytest.fixture
def package(impl):
    """Ask those who have the viewer."""
    try:
        importlib.import_module(impl.name + ".lifecycle_demo")
    except ImportError:
        pytest.skip("%s has no lifecycle viewer" % impl.name)
    return impl


def part(package, name):
    return importlib.import_module("%s.%s" % (package.name, name))


def command(package, capsys, *arguments):
    """Run the command in this process; return its exit status and what it printed."""
    try:
        status = part(package, "__main__").main(["lifecycle"] + list(map(str, arguments)))
    except SystemExit as end:
        status = end.code
    return (status,) + tuple(capsys.readouterr())


def demo(package, *arguments):
    """Return the trace of the toy run."""
    parser = part(package, "__main__").Parser()
    part(package, "lifecycle_demo").add_command(parser.add_subparsers())
    return part(package, "lifecycle_demo").run(parser.parse_args(["lifecycle", *arguments]))


def with_parents(events, named):
    """Return (receiver, hook, hook around it) of each event that has a name."""
    shown, around = [], []
    for event in events:
        del around[event.depth:]
        who = named(event)
        if who:
            shown.append((who, event.hook, next(filter(None, reversed(around)), "")))
        around.append(event.hook if who else "")
    return shown


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scenario, arguments", RECORDED, ids=[row[0] for row in RECORDED])
def test_what_fires_is_what_was_recorded_of_2_2(package, scenario, arguments):
    recorded = facts.load("lightning-2.2.5", {})[scenario].calls[0].events
    expected = with_parents(
        recorded, lambda event: event.hook not in INNER and RECEIVERS.get(event.who))
    assert with_parents(demo(package, *arguments).events, lambda event: event.who) == expected


def unfolded(lines):
    """Return the lines with all that a "× 3, the same 2" stands for: blocks of its own depth."""
    def depth(line):
        return (len(line) - len(line.lstrip())) // 2

    full = []
    for line in lines:
        mark = re.match(r" *\.\.\. × (\d+), the same ?(\d*)$", line)
        if not mark:
            full.append(line)
            continue
        blocks, at = int(mark.group(2) or 1), len(full)
        while blocks:
            at -= 1
            blocks -= depth(full[at]) == depth(line)
        full += full[at:] * int(mark.group(1))
    return full


@pytest.mark.parametrize("arguments", [[], ["--accumulate", "2"], ["--accumulate", "3"],
                                       ["--legacy", "--checkpoint"], ["predict"]], ids=" ".join)
@pytest.mark.filterwarnings("ignore")
def test_the_tree_unfolded_has_every_call(package, capsys, arguments):
    status, out, err = command(package, capsys, *arguments)
    assert (status, err) == (0, "")
    called = []
    for line in unfolded(out.splitlines()):
        row = re.match(r" *(\w+)  +(\w.*)$", line)
        if row:
            called += [(row.group(1), who) for who in row.group(2).split(", ")]
    assert called == [(event.hook, event.who.replace("callback ", ""))
                      for event in demo(package, *arguments).events]


def titles(out):
    """Return the titles of groups, indented, and the marks."""
    return [line for line in out.splitlines() if not re.match(r" *\w+  +\w", line)]


def test_epochs_and_batches_are_groups_and_repeated_ones_are_folded(package, capsys):
    status, out, err = command(package, capsys, "--train-batches", 4, "--epochs", 3)
    assert titles(out) == [
        "fit", "  sanity check", "    batch 0", "    ... × 1, the same", "  epoch 0",
        "    batch 0", "    ... × 3, the same", "    validation", "      batch 0",
        "      ... × 1, the same", "  ... × 2, the same"]


def test_a_window_of_batches_is_folded_as_a_whole(package, capsys):
    status, out, err = command(package, capsys, "--train-batches", 7, "--accumulate", 2,
                               "--epochs", 1, "--val-batches", 0)
    assert titles(out) == ["fit", "  epoch 0", "    batch 0", "    batch 1",
                           "    ... × 2, the same 2", "    batch 6"]


def test_batches_of_several_loaders_and_of_a_skipped_epoch(package):
    module, data = toy(package, on_train_batch_start=lambda self, batch, batch_idx: -1), loader(2)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        """Take both loaders."""

    type(module).validation_step = validation_step
    with watched(package) as t:
        t.trainer.fit(module, loader(3), [data, loader(1)])
    out = io.StringIO()
    t.print(out)
    assert titles(out.getvalue()) == [
        "fit", "  sanity check", "    batch 0 of loader 0", "    ... × 2, the same", "  epoch 0",
        "    batch 0"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_tell_callbacks_from_the_module_on_a_terminal_only(package, monkeypatch):
    t = demo(package, "--epochs", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain, no_color = Terminal(), io.StringIO(), Terminal()
    t.print(coloured)
    t.print(plain)
    monkeypatch.setenv("NO_COLOR", "1")
    t.print(no_color)
    colours = dict(re.findall(r"\033\[(\d+)m(First|module)\033", coloured.getvalue()))
    assert sorted(colours.values()) == ["First", "module"]
    assert "\033" not in plain.getvalue()
    assert no_color.getvalue() == plain.getvalue()
    assert re.sub(r"\033\[\d+m", "", coloured.getvalue()) == plain.getvalue()


def test_arguments_are_printed_on_demand(package, capsys):
    line = r"on_train_batch_start +First, Second, module"
    assert re.search(line + "$", command(package, capsys)[1], re.MULTILINE)
    shown = command(package, capsys, "-v")[1]
    assert re.search(line + r"  \(Tensor\[1, 4\], 0\)$", shown, re.MULTILINE)


def test_the_first_batch_alone(package):
    t, out = demo(package, "--epochs", "2"), io.StringIO()
    t.print(out, first_batch=True)
    lines = out.getvalue().splitlines()
    assert lines[0] == "batch 0" and lines[1].startswith("  on_before_batch_transfer")
    assert lines[-1].startswith("  on_train_batch_end") and "same" not in out.getvalue()
    t = demo(package, "validate")
    t.print(out, first_batch=True)
    assert out.getvalue().splitlines() == lines, "a validation has no training batch"


@pytest.mark.parametrize("arguments, told", [
    (["--epochs", "-1"], "--epochs"), (["--epochs", "two"], "'two'"), (["--accumulate", "0"], "1"),
    (["fi"], "fit"), (["--callbacks", "9"], "5"), (["--bad"], "--bad"),
    (["--set", "max_steps"], "NAME=VALUE"),
    (["--raise-in", "on_train_stat"], "on_train_start"), (["--scheduler", "daily"], "epoch"),
], ids=str)
def test_wrong_flags_are_told_in_one_line(package, capsys, arguments, told):
    status, out, err = command(package, capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err and "python -m %s" % package.name in err


@pytest.mark.parametrize("arguments, told", [
    (["--set", "max_epoch=1"], "max_epochs"), (["--set", "max_epochs='x'"], "max_epochs='x'"),
    (["--set", "val_check_interval=9"], "val_check_interval=9"),
    (["--html", "{root}/no/page.html"], "page.html"), (["--svg", "{root}/no/x.svg"], "x.svg"),
], ids=str)
def test_what_cannot_be_run_or_written_is_told_in_one_line(
        package, tmp_path, capsys, arguments, told):
    status, out, err = command(
        package, capsys, *(each.format(root=tmp_path) for each in arguments))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert told in err


def test_legacy_shows_every_hook_that_only_older_editions_have(package):
    newest = {(hook, who): edition for (hook, who), (edition, _) in listing.inventory().items()}
    older = {hook for (hook, who), edition in newest.items() if who == "C" and edition != "2.2"}
    shown = {event.hook for event in demo(package, "--legacy").events if "Older" in event.who}
    assert shown == (shown & older) and {"on_init_start", "on_batch_end", "on_epoch_end"} <= shown


@pytest.mark.parametrize("hook, who", [
    ("on_batch_end", "callback First"), ("on_train_start", "module"), ("backward", "module"),
    ("val_dataloader", "datamodule"), ("teardown", "datamodule"),
])
def test_any_hook_can_be_made_to_raise(package, hook, who):
    t = demo(package, "--legacy", "--datamodule", "--raise-in", hook)
    (last,) = [event for event in t.events if event.error and event.hook == hook]
    assert (last.who, last.error) == (who, "Raised")


def test_an_error_is_shown_where_it_was_raised(package, capsys):
    status, out, err = command(package, capsys, "--raise-in", "training_step")
    assert (status, err) == (0, "")
    assert re.search(r"training_step +module  raised Raised$", out, re.MULTILINE)
    assert re.match(r" *on_exception +First, Second$", out.splitlines()[-1])


# A run of one's own

def toy(package, **does):
    """Return a module of one layer that also overrides what is given."""
    def __init__(self):
        package.LightningModule.__init__(self)
        self.layer = torch.nn.Linear(1, 1)

    body = {
        "__init__": __init__,
        "training_step": lambda self, batch, batch_idx: self.layer(batch).sum(),
        "validation_step": lambda self, batch, batch_idx: None,
        "configure_optimizers": lambda self: torch.optim.SGD(self.parameters(), 0.1),
    }
    return type("Own", (package.LightningModule,), dict(body, **does))()


def loader(batches=4):
    return torch.utils.data.DataLoader(torch.ones(batches, 1))


def watched(package, *callbacks, **flags):
    """Return the trace of a trainer that prints and saves nothing."""
    quiet = dict(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu",
                 enable_progress_bar=False, enable_model_summary=False)
    trainer = package.Trainer(callbacks=list(callbacks), **dict(quiet, **flags))
    return part(package, "lifecycle").trace(trainer)


def fitted(package, *callbacks, **how):
    """Return the trace of a fit; ``how`` has flags, and what the module does."""
    does = {name: how.pop(name) for name in list(how)
            if callable(how[name]) or name.endswith("_step")}
    val = how.pop("val", 2)
    t = watched(package, *callbacks, **how)
    with t:
        try:
            t.trainer.fit(toy(package, **does), loader(), loader(val) if val else None)
        except (ValueError, RuntimeError):
            pass
    return t


def nothing(self, *args):
    """Override a hook."""


def boom(self, *args):
    raise ValueError("boom")


def skip(self, batch, batch_idx):
    return -1


def by_hand(self, batch, batch_idx):
    """Leave the optimizer alone."""


def manual(self):
    self.automatic_optimization = False


VALIDATES = dict(on_validation_start=nothing)
WHY = [  # hook, what the run was like, words of the answer
    ("on_validation_start", VALIDATES, "fired 2 times: module 2"),
    ("on_validation_start", dict(VALIDATES, limit_val_batches=0), "`limit_val_batches=0`"),
    ("on_validation_start", dict(VALIDATES, val=0), "no validation loader"),
    ("on_validation_start", dict(VALIDATES, validation_step=None), "no `validation_step`"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, check_val_every_n_epoch=3),
     "`check_val_every_n_epoch=3`"),
    ("on_validation_start", dict(VALIDATES, check_val_every_n_epoch=3),
     "sanity_check 1). `check_val_every_n_epoch=3`"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, check_val_every_n_epoch=None,
                                 val_check_interval=9), "`val_check_interval=9`"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, max_steps=2),
     "cut short: `max_steps=2`"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, on_train_batch_start=skip),
     "cut short: `on_train_batch_start` of the module returned -1"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, max_time={"seconds": 0}),
     "`max_time="),
    ("on_validation_start", dict(VALIDATES, limit_train_batches=0, num_sanity_val_steps=0),
     "`limit_train_batches=0`"),
    ("on_validation_start", dict(VALIDATES, num_sanity_val_steps=0, training_step=boom),
     "exception came before it: `ValueError` in `training_step` of module (epoch 0, step 0)"),
    ("on_validation_start", {}, "Nobody overrides it: it is a hook of callbacks or the module"),
    ("on_validation_begin", {}, "is no hook. Near are `on_validation_start`"),
    ("on_train_epoch_ending", {}, "`on_train_epoch_end`"),
    ("training_step", dict(on_train_batch_start=skip), "returned -1"),
    ("training_step", dict(max_epochs=0), "`max_epochs=0`"),
    ("on_test_start", dict(on_test_start=nothing), "`trainer.test`; what ran was `fit`"),
    ("on_sanity_check_start", dict(num_sanity_val_steps=0), "`num_sanity_val_steps=0`"),
    ("on_sanity_check_start", dict(fast_dev_run=True), "`fast_dev_run`"),
    ("on_train_end", dict(on_train_end=nothing, validation_step=boom), "in `validation_step`"),
    ("optimizer_step", dict(training_step=by_hand, on_fit_start=nothing, setup=nothing,
                            configure_model=manual), "`automatic_optimization` is False"),
    ("backward", dict(training_step=by_hand), "returned None"),
    ("lr_scheduler_step", {}, "no scheduler"),
    ("on_save_checkpoint", dict(on_save_checkpoint=nothing), "no `ModelCheckpoint`"),
    ("on_load_checkpoint", dict(on_load_checkpoint=nothing), "No `ckpt_path`"),
    ("train_dataloader", {}, "passed to the entry point"),
    ("on_exception", {}, "Nothing raised"),
    ("on_init_start", {}, "before the trace began"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hook, how, told", WHY, ids=[
    "%s: %s" % (row[0], re.sub(r"[^-=\w ]", "", row[2])) for row in WHY])
def test_why(package, hook, how, told):
    answer = fitted(package, **dict(how)).why(hook)
    assert told in answer
    assert "Nothing that is known" not in answer


@pytest.mark.filterwarnings("ignore")
def test_why_names_a_misspelt_method_and_a_callback_of_the_wrong_kind(package):
    misspelt = type("Mine", (package.Callback,), {"on_validation_finished": nothing})()
    t = fitted(package, misspelt)
    assert "`Mine.on_validation_finished` is no hook: was `on_validation_end` meant?" in t.why(
        "on_validation_end")
    assert "`Mine.on_validation_finished` is never called" in t.why("on_validation_finished")


def test_why_without_a_run(package):
    with watched(package) as t:
        pass
    assert "Nothing ran" in t.why("on_train_start")


def test_why_is_known_of_every_hook_that_did_not_fire(package):
    for arguments in (["fit"], ["validate"], ["test"], ["predict"], ["--train-batches", "0"]):
        t = demo(package, *arguments)
        fired = {event.hook for event in t.events}
        silent = [hook for hook in part(package, "dispatch").HOOK_NAMES if hook not in fired]
        assert [hook for hook in silent if "Nothing that is known" in t.why(hook)] == []


def scheduled(**settings):
    """Return a `configure_optimizers` with a scheduler."""
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        return [optimizer], [dict(settings, scheduler=scheduler)]

    return configure_optimizers


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hook, train, val, told", [
    ("on_validation_start", 4, 0, "The validation loader has no batches."),
    ("on_train_batch_start", 0, 2, "The training loader has no batches."),
])
def test_why_with_an_empty_loader(package, hook, train, val, told):
    with watched(package) as t:
        t.trainer.fit(toy(package, **{hook: nothing}), loader(train), loader(val))
    assert told in t.why(hook)


@pytest.mark.filterwarnings("ignore")
def test_why_a_scheduler_did_not_step(package):
    t = fitted(package, configure_optimizers=scheduled(interval="step", frequency=9))
    assert "every 9 step(s), and that was not reached" in t.why("lr_scheduler_step")
    t = fitted(package, configure_optimizers=scheduled(interval="step", frequency=4))
    assert "`lr_scheduler_step` fired once" in t.why("lr_scheduler_step")


@pytest.mark.filterwarnings("ignore")
def test_why_nothing_was_saved_with_a_checkpoint_callback(package, tmp_path):
    def saving(**flags):
        saver = package.ModelCheckpoint(str(tmp_path), every_n_epochs=5)
        return fitted(package, saver, on_save_checkpoint=nothing, enable_checkpointing=True,
                      **flags).why("on_save_checkpoint")

    assert "No checkpoint was saved: none was due in this run." in saving()
    assert "`fast_dev_run` saves nothing" in saving(fast_dev_run=True)


@pytest.mark.filterwarnings("ignore")
def test_why_after_a_resume(package, tmp_path):
    path = str(tmp_path / "a.ckpt")
    within = fitted(package, on_train_batch_end=lambda self, outputs, batch, batch_idx: (
        batch_idx == 1 and self.trainer.save_checkpoint(path)))
    overrides = dict(on_sanity_check_start=nothing, on_train_batch_start=nothing)
    callback = type("Own", (package.Callback,), overrides)()
    with watched(package, callback) as t:
        t.trainer.fit(toy(package), loader(), loader(), ckpt_path=path)
    assert "went on inside an epoch of its checkpoint" in t.why("on_sanity_check_start")
    assert t.trainer.global_step == within.trainer.global_step == 4
    within.trainer.save_checkpoint(path)
    with watched(package, callback) as t:
        t.trainer.fit(toy(package), loader(), loader(), ckpt_path=path)
    assert "run that was over: nothing was left to train" in t.why("on_train_batch_start")


class Failing(torch.utils.data.Dataset):
    """Three rows, and then an error."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 9

    def __getitem__(self, index):
        if index == 3:
            raise self.error
        return torch.ones(1)


@pytest.mark.filterwarnings("ignore")
def test_why_after_an_error_outside_the_hooks(package):
    def failing(error):
        with watched(package) as t:
            t.trainer.fit(toy(package, on_train_end=nothing),
                          torch.utils.data.DataLoader(Failing(error)))
        return t

    assert "came before it: one outside the hooks" in failing(KeyboardInterrupt()).why(
        "on_train_end")
    t = watched(package)
    with pytest.raises(OSError, match="no such row"):
        with t:
            t.trainer.fit(toy(package, on_train_end=nothing),
                          torch.utils.data.DataLoader(Failing(OSError("no such row"))))
    assert "`OSError: no such row` outside the hooks" in t.why("on_train_end")


@pytest.mark.filterwarnings("ignore")
def test_why_of_a_hook_that_came_too_late(package):
    t = fitted(package)
    t.trainer.lightning_module.on_train_end = nothing
    assert "`Own.on_train_end` was put there after the run" in t.why("on_train_end")


def test_one_trace_at_a_time(package):
    t = watched(package)
    with t:
        with pytest.raises(package.package.MisconfigurationException, match="traced already"):
            t.__enter__()
    with t:
        """Afterwards it may be traced again."""


@pytest.mark.filterwarnings("ignore")
def test_the_table_of_times_has_milliseconds_and_adds_up(package):
    t, out = fitted(package), io.StringIO()
    t.print_times(out)
    head, *lines = out.getvalue().splitlines()
    assert re.split("  +", head) == ["hook", "calls", "total ms", "mean ms", "own ms", "share"]
    assert len({len(line) for line in [head] + lines}) == 1, "columns stand below each other"
    rows = {row.hook: row for row in t.times()}
    assert [line.split()[0] for line in lines[:-1]] == list(rows)
    shares = []
    for line in lines[:-1]:
        name, calls, *milliseconds, share = line.split()
        row = rows[name]
        assert int(calls) == row.calls
        assert list(map(float, milliseconds)) == pytest.approx(
            [1e3 * row.total, 1e3 * row.mean, 1e3 * row.own], abs=6e-4)
        shares.append(float(share.rstrip("%")))
    assert lines[-1].startswith("(no hook)")
    assert sum(shares) + float(lines[-1].split()[-1].rstrip("%")) == pytest.approx(100, abs=1)


@pytest.mark.filterwarnings("ignore")
def test_two_of_a_kind_are_written_out_and_three_are_folded(package):
    def rows(count):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), 0.1)
            schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1) for _ in range(count)]
            return [optimizer], schedulers

        out = io.StringIO()
        fitted(package, configure_optimizers=configure_optimizers).print(out)
        lines = out.getvalue().splitlines()
        at = next(i for i, line in enumerate(lines) if line.split()[0] == "lr_scheduler_step")
        return [line.split()[0] if "..." not in line else line.strip()
                for line in lines[at:at + 2]]

    assert rows(2) == ["lr_scheduler_step", "lr_scheduler_step"]
    assert rows(3) == ["lr_scheduler_step", "... × 2, the same"]


def test_a_flag_may_be_a_word(package):
    trainer = demo(package, "--set", "gradient_clip_algorithm=value").trainer
    assert trainer.gradient_clip_algorithm == "value"


@pytest.mark.filterwarnings("ignore")
def test_times_count_calls_and_share_the_time_traced(package):
    import time

    t = fitted(package, on_train_epoch_end=lambda self: time.sleep(0.2))
    rows = {row.hook: row for row in t.times()}
    assert rows["training_step"].calls == 4 and rows["on_train_epoch_end"].calls == 1
    assert rows["on_train_epoch_end"].total >= 0.2
    for row in rows.values():
        assert row.mean == pytest.approx(row.total / row.calls)
        assert row.share == pytest.approx(row.own / t.seconds)
    assert sum(row.share for row in rows.values()) <= 1.0001
    assert rows["optimizer_step"].own < rows["optimizer_step"].total, "the closure is not its own"
    shares = [row.share for row in t.times()]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.filterwarnings("ignore")
def test_nothing_is_wrapped_without_a_trace(package):
    def wrapped(trainer):
        return [hook for hook, receivers in trainer.on.receivers.items()
                for _, function in receivers if hasattr(function, "__wrapped__")]

    t = watched(package)
    with t:
        t.trainer.fit(toy(package), loader(), loader())
    assert wrapped(t.trainer)
    t.trainer.fit(toy(package), loader(), loader())
    assert not wrapped(t.trainer)


# What there is to know of a hook

def test_every_hook_has_a_text_and_the_editions_of_the_seeds(package):
    manual, kinds = part(package, "lifecycle_manual"), {"C": "callback", "M": "module",
                                                      "D": "datamodule"}
    for hook in part(package, "dispatch").HOOK_NAMES:
        assert manual.receivers(hook), hook
        for kind in manual.receivers(hook):
            entry = manual.entry(hook, kind)
            assert entry.text and entry.signature.startswith(hook + "(self")
            assert manual.lane(hook, kind) in manual.LANES
    for line in listing.lines("inventory.txt"):
        edition, who, hook = line.split()[:3]
        for one in who:
            if hook in part(package, "dispatch").HOOK_NAMES:
                assert edition in manual.entry(hook, kinds[one]).editions, (hook, one)


def test_every_hook_of_a_seed_has_clauses(package):
    manual = part(package, "lifecycle_manual")
    hooks = [hook for hook, who in listing.inventory() if who == "M" and
             hook in part(package, "dispatch").HOOK_NAMES]
    assert [hook for hook in hooks if not manual.entry(hook, "module").clauses] == []


# The page and the picture

@pytest.fixture
def page(package, tmp_path, capsys):
    file = tmp_path / "page.html"
    assert command(package, capsys, "--legacy", "--html", file) == (0, "%s\n" % file, "")
    return file


def data_of(page):
    (text,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>',
                         page.read_text("utf-8"), re.DOTALL)
    return json.loads(text)


def test_the_page_asks_nothing_of_the_network(page):
    text = page.read_text("utf-8")
    without_data = re.sub(r'(?s)(<script id="data".*?>).*?</script>', "", text)
    assert not re.search(r"https?:|\bsrc=|\bhref=|url\(|@import|fetch\(|{{", without_data)
    assert "default-src 'none'" in text


def test_the_page_has_every_call_and_every_hook(package, page):
    data = data_of(page)
    shown = [(event["hook"], event["who"]) for event in data["events"]]
    assert shown == [(event.hook, event.who) for event in demo(package, "--legacy").events]
    assert sorted(place for node in data["nodes"] for place in node[3]) == list(range(len(shown)))
    assert set(data["hooks"]) == part(package, "dispatch").HOOK_NAMES
    assert set(data["silent"]) == set(data["hooks"]) - {hook for hook, _ in shown}
    cited = {id for kinds in data["hooks"].values() for entry in kinds.values()
             for id in entry["clauses"]}
    assert cited and cited <= set(data["clauses"])


@pytest.mark.filterwarnings("ignore")
def test_names_of_a_users_own_cannot_break_out_of_the_page(package, tmp_path):
    name = "</script><script>alert(1)</script>"
    evil = type(name, (package.Callback,), {"on_train_start": nothing})()
    t = fitted(package, evil)
    page = t.html(tmp_path / "page.html")
    assert page.read_text("utf-8").count("<script") == 2
    assert name in {event["who"][9:] for event in data_of(page)["events"]}
    assert "<script" not in t.svg(tmp_path / "x.svg").read_text("utf-8")


@pytest.mark.filterwarnings("ignore")
def test_a_long_trace_is_cut_off_and_the_page_says_so(package, tmp_path, monkeypatch):
    monkeypatch.setattr(part(package, "lifecycle_page"), "MOST_EVENTS", 50)
    t = fitted(package)
    data = data_of(t.html(tmp_path / "page.html"))
    assert (len(data["events"]), data["left_out"]) == (50, len(t.events) - 50)


def test_the_picture_shows_each_line_of_the_tree_for_light_and_dark(package, tmp_path, capsys):
    file = tmp_path / "picture.svg"
    assert command(package, capsys, "--svg", file) == (0, "%s\n" % file, "")
    root = ElementTree.parse(str(file)).getroot()
    svg = "{http://www.w3.org/2000/svg}"
    words = [text.text for text in root.iter(svg + "text")]
    lines = command(package, capsys)[1].splitlines()
    for line in lines:
        assert re.split("  +", line.strip())[0] in words
    dots = [dot.find(svg + "title").text for dot in root.iter(svg + "circle")
            if dot.find(svg + "title") is not None]
    assert len(dots) == sum(line.count(",") + 1 for line in lines if re.match(r" *\w+  +\w", line))
    assert "prefers-color-scheme: dark" in root.find(svg + "style").text
    assert 'class="paper"' in file.read_text("utf-8"), "a background of its own"


def test_a_copy_under_another_name_writes_the_page(package, tmp_path):
    source = Path(package.package.__file__).parent
    copy = tmp_path / "own" / "_vendor" / "life"
    shutil.copytree(str(source), str(copy), ignore=shutil.ignore_patterns("__pycache__"))

    def runs():
        sys.path.insert(0, str(tmp_path))
        os.chdir(str(tmp_path))
        sys.argv = ["life", "lifecycle", "test", "--html", "page.html"]
        runpy.run_module("own._vendor.life", run_name="__main__")

    assert forked.run(runs) == (0, "page.html\n")


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
--disable-background-networking --disable-component-update --virtual-time-budget=2000 --dump-dom
""".split()
ACTS = """<output id="acts"></output><script>{
const told = {};
const press = (box, key) => box.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
const head = () => document.querySelector("#more h2").textContent;
const bar = hook => [...document.querySelectorAll(".bar[data-call]")].find(
  each => each.title.startsWith(hook + " "));
const items = () => document.querySelectorAll("#tree li").length;
try {
  told.asked = head(); told.top = scrollY === 0;
  press($("lanes"), "Home"); told.first = head();
  press($("lanes"), "ArrowRight"); told.second = head();
  press($("lanes"), "End"); told.last = head();
  bar("optimizer_step").click(); told.clicked = head();
  press($("lanes"), "ArrowDown"); told.inner = head();
  press($("lanes"), "ArrowUp"); told.outer = head();
  told.text = $("more").textContent;
  const before = $("wide").offsetWidth; press($("lanes"), "+"); press($("lanes"), "+");
  told.zoomed = $("wide").offsetWidth > 2 * before;
  press($("lanes"), "0"); told.whole = $("wide").offsetWidth === before;
  const search = $("search"); search.value = "fit-001"; search.dispatchEvent(new Event("input"));
  told.found = [...$("found").querySelectorAll("code")].map(each => each.textContent);
  $("found").querySelector("button").click(); told.searched = head();
  search.value = "on_test_start"; search.dispatchEvent(new Event("input"));
  press(search, "Enter"); told.silent = $("more").textContent;
  search.value = ""; search.dispatchEvent(new Event("input"));
  const closed = document.querySelector("#tree li[aria-expanded=false]"), had = items();
  closed.focus(); press(closed, "ArrowRight"); told.opened = items() > had;
  told.focused = document.activeElement === closed;
  press(closed, "ArrowDown"); told.below = closed.contains(document.activeElement);
  $("clock").click(); told.clock = $("clock").getAttribute("aria-pressed");
  told.overflow = document.documentElement.scrollWidth > innerWidth;
} catch (error) { told.error = String(error) }
$("acts").textContent = JSON.stringify(told);
}</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page in")
@pytest.mark.parametrize("size, asked", [("1400,900", 3), ("500,844", 0)])
def test_a_browser_shows_the_page_and_answers_to_clicks_and_keys(page, tmp_path, size, asked):
    acting = tmp_path / "acting.html"
    acting.write_text(page.read_text("utf-8") + ACTS, "utf-8")
    shown = subprocess.run(
        [BROWSER, *FLAGS, "--window-size=" + size, "--user-data-dir=%s" % (tmp_path / "profile"),
         acting.as_uri() + ("#%d" % asked if asked else "")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    text = shown.stdout.decode("utf-8")
    told = json.loads(re.search(r'<output id="acts">(.*?)</output>', text, re.DOTALL).group(1)
                      .replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    events = data_of(page)["events"]
    assert "error" not in told, told["error"]
    assert told["asked"] == events[asked]["hook"] and told["top"]
    assert (told["first"], told["second"]) == (events[0]["hook"], events[1]["hook"])
    assert told["last"] == events[-1]["hook"] == "teardown"
    assert (told["clicked"], told["inner"], told["outer"]) == (
        "optimizer_step", "training_step", "optimizer_step")
    for words in ("fit › epoch 0 › batch 0", "batch_idx0", "the closure runs training_step",
                  "OPT-001"):
        assert words in told["text"]
    assert told["zoomed"] and told["whole"]
    assert told["found"] == ["on_train_start"] == [told["searched"]]
    assert "`trainer.test`".replace("`", "") in told["silent"]
    assert told["opened"] and told["focused"] and told["below"]
    assert told["clock"] == "true"
    assert not told["overflow"]
