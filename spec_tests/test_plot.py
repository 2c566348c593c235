"""The command `plot`: what of a run is drawn where, and what the command says when it cannot."""

import importlib
import importlib.util
import sys

import pytest

pytest.importorskip("torch")


@pytest.fixture
def package(impl):
    """Ask those who have the command."""
    try:
        importlib.import_module(impl.name + ".plot")
    except ImportError:
        pytest.skip("%s has no plot" % impl.name)
    return impl


@pytest.fixture
def run(package, tmp_path):
    """Return the folder of a run of two epochs."""
    logger = package.CSVLogger(str(tmp_path), version=0)
    for epoch in range(2):
        for step in range(4):
            at = 4 * epoch + step
            logger.log_metrics({"lr-SGD": 0.1 / (at + 1)}, at)
            logger.log_metrics({"train_loss_step": 1 / (at + 1), "epoch": epoch}, at)
        logger.log_metrics({"val_loss": 0.5, "val_acc": 0.8, "epoch": epoch}, at)
        logger.log_metrics({"train_loss_epoch": 0.4, "epoch": epoch}, at)
    logger.save()
    return logger.log_dir


def command(package, capsys, *arguments):
    """Run the command in this process; return its exit status and what it printed."""
    main = importlib.import_module(package.name + ".__main__").main
    status = main(["plot", *map(str, arguments)])
    return (status,) + tuple(capsys.readouterr())


PLACES = [
    ("train_loss", "loss"), ("val_loss", "loss"), ("loss", "loss"), ("test/loss", "loss"),
    ("loss.validation", "loss"), ("train_loss_step", "loss"), ("train_loss_epoch", "loss"),
    ("val_loss_epoch/dataloader_idx_1", "loss"), ("grad_norm", "grad_norm"), ("val", "val"),
    ("training-time", "time"), ("first_step", "first"), ("lr-SGD", "learning rate"),
    ("lr-Adam-1/head", "learning rate"), ("lr", "learning rate"),
    ("learning_rate", "learning rate"), ("lr-SGD-momentum", "learning rate: momentum"),
    ("lr-SGD/pg1-weight_decay", "learning rate: weight_decay"), ("lrap", "lrap"),
    ("val_loss_step", "loss, per batch (val)"),
    ("test_acc_step/dataloader_idx_0", "acc, per batch (test)"),
]


@pytest.mark.parametrize("name, title", PLACES, ids=[name for name, _ in PLACES])
def test_a_metric_has_one_panel_for_all_stages(package, name, title):
    module = importlib.import_module(package.name + ".plot")
    (panel,) = module.panels_of([{"step": 3, "epoch": 0, name: 0.5}, {"step": 7, name: 0.25}])
    assert panel.title == title
    assert panel.curves == {name: ([3, 7], [0.5, 0.25])}
    assert panel.x_label == ("batch of an evaluation" if "per batch" in title else "step")


def test_panels_come_in_the_order_of_the_run_with_learning_rates_below(package):
    module = importlib.import_module(package.name + ".plot")
    rows = [{"step": 0, "lr-SGD": 0.1}, {"step": 4, "loss": 1.0}, {"step": 4, "val_acc": 0.5},
            {"step": 4, "val_loss": 1.0}]
    panels = module.panels_of(rows)
    assert [panel.title for panel in panels] == ["loss", "acc", "learning rate"]
    assert list(panels[0].curves) == ["loss", "val_loss"]


def test_an_epoch_ends_at_its_last_step(package):
    module = importlib.import_module(package.name + ".plot")
    rows = [{"step": 1, "epoch": 0}, {"step": 4, "epoch": 0}, {"step": 4}, {"step": 9, "epoch": 1},
            {"step": 8, "epoch": 1}]
    assert module.epoch_ends(rows) == {0: 4, 1: 9}


@pytest.mark.parametrize("suffix, begins", [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_the_suffix_is_the_format(package, run, tmp_path, capsys, suffix, begins):
    pytest.importorskip("matplotlib")
    file = tmp_path / ("picture" + suffix)
    assert command(package, capsys, run, "-o", file) == (0, str(file) + "\n", "")
    assert file.read_bytes().startswith(begins)


def test_the_picture_shows_every_metric_and_the_ends_of_the_epochs(package, run, capsys):
    pytest.importorskip("matplotlib")
    status, out, err = command(package, capsys, run)
    assert (status, err) == (0, "")
    with open(run + "/metrics.svg") as file:
        drawn = file.read()
    for text in ("loss", "acc", "learning rate", "train_loss_step", "train_loss_epoch", "val_loss",
                 "val_acc", "lr-SGD", "end of epoch", "step"):
        assert "<!-- %s -->" % text in drawn


def test_a_file_of_metrics_stands_for_its_folder(package, run, capsys):
    pytest.importorskip("matplotlib")
    status, out, err = command(package, capsys, run + "/metrics.csv")
    assert (status, out) == (0, run + "/metrics.svg\n")


def test_without_matplotlib_one_line_says_how_to_get_it(package, run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    status, out, err = command(package, capsys, run)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "pip install" in err


def test_matplotlib_is_imported_only_to_draw(package, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    spec = importlib.util.find_spec(package.name + ".plot")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


REFUSALS = [
    ("no run", ["{root}/nowhere"], "metrics.csv"), ("another format", ["{run}", "-o", "x.gif"],
                                                    ".svg or .png"),
    ("no folder to write to", ["{run}", "-o", "{root}/no/x.svg"], "no/x.svg"),
    ("nothing logged", ["{root}/empty"], "empty"),
]


@pytest.mark.parametrize("arguments, told", [row[1:] for row in REFUSALS],
                         ids=[row[0] for row in REFUSALS])
def test_what_cannot_be_drawn_is_told_in_one_line(package, run, tmp_path, capsys, arguments, told):
    if "no/x.svg" in told:
        pytest.importorskip("matplotlib")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "metrics.csv").write_text("step\n")
    filled = [each.format(run=run, root=tmp_path) for each in arguments]
    status, out, err = command(package, capsys, *filled)
    assert (status, out) == (1, "")
    assert err.count("\n") == 1 and told in err


def test_the_command_line_says_how_it_is_used(package, capsys):
    main = importlib.import_module(package.name + ".__main__").main
    for arguments in ([], ["draw"], ["plot"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        assert "python -m %s" % package.name in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "plot" in capsys.readouterr().out
