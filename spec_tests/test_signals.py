"""SIGTERM ends a run behind its batch, with a checkpoint, and two at once; handlers stay as found.

Lightning 2.x raises its `SIGTERMException` behind the batch, too, but saves nothing, and exits with
status 0; what more is asked here is called beyond.
"""

import os
import signal
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from .test_checkpoint_files import pl, rows  # noqa: E402, F401

pytestmark = pytest.mark.filterwarnings("ignore")


def sender(pl, at, times=1, hook="on_train_batch_start"):  # noqa: F811
    """A callback that sends SIGTERM to its own process at one call of a hook."""
    class Sender(pl.callbacks.Callback):
        calls, heard = 0, []

        def on_exception(self, trainer, module, exception):
            self.heard.append(type(exception).__name__)

    def send(self, *args):
        self.calls += 1
        for _ in range(times * (self.calls == at)):
            os.kill(os.getpid(), signal.SIGTERM)

    setattr(Sender, hook, send)
    return Sender()


def weights(module):
    return [each.tolist() for each in module.parameters()]


@pytest.mark.parametrize("hook, at", [("on_train_batch_start", 3), ("on_validation_batch_start", 1),
                                      ("on_train_epoch_end", 1)])
def test_beyond_sigterm_finishes_the_batch_saves_and_ends_with_143(pl, hook, at):  # noqa: F811
    pl.Mine.validation_step = lambda self, batch, batch_idx: None
    flags = dict(max_epochs=3, num_sanity_val_steps=0)
    torch.manual_seed(1)
    whole = pl.Mine()
    pl.new_trainer(**flags).fit(whole, rows(), rows())
    torch.manual_seed(1)
    saver = pl.callbacks.ModelCheckpoint(str(pl.folder / "ck"), save_top_k=0)
    callback, before = sender(pl, at, hook=hook), signal.getsignal(signal.SIGTERM)
    trainer = pl.new_trainer(callback, saver, **flags)
    with pytest.raises(SystemExit) as caught:
        trainer.fit(pl.Mine(), rows(), rows())
    assert caught.value.code == 143 and type(caught.value).__name__ == "SIGTERMException"
    assert callback.heard == ["SIGTERMException"] and trainer.interrupted
    assert signal.getsignal(signal.SIGTERM) is before
    assert os.listdir("ck") == ["last-sigterm.ckpt"]
    module = pl.Mine()
    pl.new_trainer(pl.callbacks.ModelCheckpoint(str(pl.folder / "ck"), save_top_k=0), **flags).fit(
        module, rows(), rows(), ckpt_path="last")
    assert weights(module) == weights(whole)


@pytest.mark.parametrize("entry", ["validate", "test", "predict", "fast_dev_run"])
def test_beyond_sigterm_saves_nothing_where_nothing_is_trained(pl, entry):  # noqa: F811
    for name in ("validation_step", "test_step", "predict_step"):
        setattr(pl.Mine, name, lambda self, batch, batch_idx: None)
    hook = {"validate": "validation", "fast_dev_run": "train"}.get(entry, entry)
    callback = sender(pl, 1, hook="on_%s_batch_start" % hook)
    flags = dict(fast_dev_run=2) if entry == "fast_dev_run" else {}
    trainer = pl.new_trainer(callback, **flags)
    run = trainer.fit if flags else getattr(trainer, entry)
    with pytest.raises(SystemExit) as caught:
        run(pl.Mine(), rows())
    assert caught.value.code == 143 and callback.calls == 1
    assert os.listdir(".") == []


def test_beyond_without_a_checkpoint_callback_it_saves_in_the_root_folder(pl):  # noqa: F811
    trainer = pl.new_trainer(sender(pl, 1), enable_checkpointing=False)
    with pytest.raises(SystemExit):
        trainer.fit(pl.Mine(), rows())
    assert os.listdir(".") == ["last-sigterm.ckpt"]
    assert torch.load("last-sigterm.ckpt", weights_only=True)["global_step"] == 1


def test_beyond_a_handler_that_is_set_during_a_run_stays(pl):  # noqa: F811
    before = signal.getsignal(signal.SIGTERM)

    class Sets(pl.callbacks.Callback):
        def on_train_start(self, trainer, module):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    try:
        pl.new_trainer(Sets()).fit(pl.Mine(), rows())
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_beyond_a_second_sigterm_ends_at_once(pl):  # noqa: F811
    child = os.fork()
    if not child:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        pl.new_trainer(sender(pl, 1, times=2)).fit(pl.Mine(), rows())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGTERM
    assert not os.path.exists("last-sigterm.ckpt")


def test_beyond_a_handler_of_the_user_is_called_and_left(pl):  # noqa: F811
    heard = []

    def mine(*args):
        heard.append(args[0])

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with pytest.raises(SystemExit):
            pl.new_trainer(sender(pl, 1)).fit(pl.Mine(), rows())
        pl.new_trainer().fit(pl.Mine(), rows())
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


def test_beyond_a_second_sigterm_goes_to_the_handler_of_the_user(pl):  # noqa: F811
    heard = []

    def mine(*args):
        heard.append(signal.getsignal(signal.SIGTERM) is mine)

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with pytest.raises(SystemExit):
            pl.new_trainer(sender(pl, 1, times=3)).fit(pl.Mine(), rows())
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [False, True, True]


def test_beyond_other_threads_are_let_alone(pl):  # noqa: F811
    done, before = [], signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: done.append(
        pl.new_trainer(max_epochs=2).fit(pl.Mine(), rows())))
    thread.start()
    while thread.is_alive():
        assert signal.getsignal(signal.SIGTERM) is before
        time.sleep(0.01)
    assert done == [None]
