"""How one script becomes several processes, and how they end together.

Each launch takes seconds: they run with ``MORE_PROCESSES=1``, as `make processes` does.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
import types

import pytest

pytest.importorskip("torch.distributed.run")
pl = pytest.importorskip("minilightning")

more = pytest.mark.skipif("MORE_PROCESSES" not in os.environ, reason="takes long; MORE_PROCESSES=1")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = '''
import datetime, os, signal, sys, time
import torch, torch.distributed
import minilightning as pl

case, rank = sys.argv[1], int(os.environ.get("RANK", -1))


def say(line):  # in one piece, so that two processes do not speak at once
    sys.stdout.write(line + "\\n")
    sys.stdout.flush()


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(1, 1)

    def prepare_data(self):
        time.sleep(8 if case == "slow" else 0)
        say("prepares: rank %d with a group: %s" % (rank, torch.distributed.is_initialized()))

    def on_train_start(self):
        at = rank, self.trainer.world_size, self.trainer.node_rank
        say("trains: rank %d of %d on %d" % at)

    def training_step(self, batch, batch_idx):
        if case == "raise%d" % rank and batch_idx == 2:
            raise ValueError("went wrong")
        if case == "killed" and rank == 1 and batch_idx == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05 if case == "waits" else 0)
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def on_train_end(self):
        say("weight: %.6f" % self.layer.weight.item())


trainer = pl.Trainer(accelerator="cpu", devices="auto" if case == "nodes" else 2,
                     strategy=pl.strategies.DDPStrategy(timeout=datetime.timedelta(seconds=5)),
                     num_nodes=2 if case == "nodes" else 1, max_epochs=1, logger=False,
                     enable_checkpointing=False, enable_progress_bar=False)
rows = torch.arange(400.0)[:, None] / 400
trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=4))
if case == "disk":
    trainer.save_checkpoint("/proc/nowhere/a.ckpt")
'''


def started(folder, *command):
    """Start a command beside the script."""
    (folder / "train.py").write_text(SCRIPT)
    environment = dict(os.environ, PYTHONPATH=ROOT, OMP_NUM_THREADS="1")
    environment.pop("PYTEST_CURRENT_TEST", None)
    return subprocess.Popen([sys.executable] + list(command), cwd=str(folder), env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(folder, process, within=180):
    """Return exit code and output, after a look at what is left."""
    try:
        said, _ = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert left(folder) == []
    return process.returncode, said


def left(folder):
    """Return the processes that still run there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/cwd" % pid) == str(folder):
                found.append(pid)
        except OSError:
            continue
    return found


def run(folder, *command):
    return ended(folder, started(folder, *command))


@more
def test_a_plain_script_becomes_two_processes(tmp_path):
    code, said = run(tmp_path, "train.py", "plain")
    assert code == 0, said
    assert sorted(line for line in said.splitlines() if ": rank" in line) == [
        "prepares: rank 0 with a group: False",
        "trains: rank 0 of 2 on 0", "trains: rank 1 of 2 on 0"]
    weights = [line for line in said.splitlines() if line.startswith("weight")]
    assert len(weights) == 2 and len(set(weights)) == 1
    warned = [line for line in said.splitlines() if "Warning" in line and "NumPy" not in line]
    assert "destroy_process_group" not in said and not warned


@more
def test_preparing_data_may_take_longer_than_processes_wait_for_each_other(tmp_path):
    code, said = run(tmp_path, "train.py", "slow")
    assert code == 0 and said.count("weight") == 2, said


@more
def test_an_error_on_one_rank_ends_all_and_is_shown(tmp_path):
    code, said = run(tmp_path, "train.py", "raise1")
    assert code != 0
    assert "prepares: rank 0 with a group: False" in said and "prepares: rank 1" not in said
    assert "ValueError: went wrong" in said and "This was on rank 1 of 2." in said


@more
@pytest.mark.parametrize("command", [
    "-m train plain", "-m torch.distributed.run --standalone --nproc_per_node=2 train.py plain"])
def test_other_ways_to_start(tmp_path, command):
    code, said = run(tmp_path, *command.split())
    assert code == 0, said
    assert "trains: rank 0 of 2 on 0" in said and "trains: rank 1 of 2 on 0" in said


@more
def test_the_losses_are_the_same_however_the_script_is_started(tmp_path):
    script, found = os.path.join(ROOT, "tutorials", "two_processes.py"), []
    for command in (["--devices", "1"], [], ["--devices", "2"]):
        before = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
        code, said = run(tmp_path, *(before if command[1:] == ["2"] else []), script, *command)
        assert code == 0, said
        found.append([float(each) for each in re.findall(r"loss (\d+\.\d+)", said)])
    assert len(found[0]) == 6
    assert found[1] == found[2] == pytest.approx(found[0], abs=1.5e-4)  # four digits are printed


@more
@pytest.mark.parametrize("case, shown", [
    ("raise0", "ValueError: went wrong"), ("killed", "SIGKILL"),
    ("disk", "The first process could not save")])
def test_other_ways_to_fail(tmp_path, case, shown):
    code, said = run(tmp_path, "train.py", case)
    assert code != 0 and shown in said


@more
def test_ctrl_c_of_the_launcher_ends_all(tmp_path):
    process = started(tmp_path, "train.py", "waits")
    while "trains" not in process.stdout.readline():
        pass
    since = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _ = ended(tmp_path, process)
    assert code != 0 and time.monotonic() - since < 30


@more
def test_two_nodes_are_two_agents(tmp_path):
    from .launch import _free_port

    port, nodes = _free_port(), []
    for node in (0, 1):
        nodes.append(started(
            tmp_path, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1",
            "--node_rank=%d" % node, "--master_addr=127.0.0.1", "--master_port=%d" % port,
            "train.py", "nodes"))
    outputs = [process.communicate(timeout=180)[0] for process in nodes]
    assert [process.returncode for process in nodes] == [0, 0], outputs
    for node in (0, 1):  # each of them prepares data
        assert "prepares: rank %d with a group: False" % node in outputs[node]
        assert "trains: rank %d of 2 on %d" % (node, node) in outputs[node]
    assert left(tmp_path) == []


@more
@pytest.mark.parametrize("command, reason", [
    ("-c 'exec(open(\"train.py\").read())' plain", "there is no script"),
    ("parent.py plain", "this process was itself started by another one"),
])
def test_without_a_script_to_run_again_it_says_why(tmp_path, command, reason):
    (tmp_path / "parent.py").write_text(
        "import multiprocessing, runpy, sys\n"
        "if __name__ == '__main__':\n"
        "    child = multiprocessing.get_context('spawn').Process(\n"
        "        target=runpy.run_path, args=('train.py',))\n"
        "    child.start()\n    child.join()\n    sys.exit(child.exitcode)\n")
    code, said = run(tmp_path, *shlex.split(command))
    assert code != 0 and "prepares" not in said
    assert reason in said and "torchrun --nproc_per_node=2" in said


@more
def test_an_interactive_session_is_told_how_to_launch(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    said = subprocess.run(
        [sys.executable, "-i", "-", "plain"], cwd=str(tmp_path), capture_output=True, text=True,
        input='exec(open("train.py").read())\nexit()\n',
        env=dict(os.environ, PYTHONPATH=ROOT, OMP_NUM_THREADS="1")).stderr
    assert "this is an interactive session" in said and "torchrun --nproc_per_node=2" in said


def test_a_test_runner_is_told_how_to_launch():
    with pytest.raises(pl.MisconfigurationException,
                       match="test runner.*torchrun --nproc_per_node=2"):
        fit_on_two()


class Replaced(BaseException):
    """What `os.execv` would have replaced this process by."""


def as_script(monkeypatch, folder):
    """Make believe that this process runs a script; return its `__main__`."""
    main = types.ModuleType("__main__")
    main.__file__ = str(folder / "train.py")
    (folder / "train.py").write_text("")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.delitem(sys.modules, "_pytest")
    monkeypatch.delenv("PYTEST_CURRENT_TEST")

    def execv(program, command):
        raise Replaced(command)

    monkeypatch.setattr(os, "execv", execv)
    return main


def fit_on_two():
    """Fit with two processes that are not there."""
    from torch.utils.data import DataLoader

    module = pl.LightningModule()
    module.training_step = lambda batch, batch_idx: None
    module.configure_optimizers = lambda: None
    trainer = pl.Trainer(accelerator="cpu", devices=2, logger=False, enable_checkpointing=False)
    trainer.fit(module, DataLoader([1.0]))


@pytest.mark.parametrize("line, options, is_module, name, arguments", [
    ("train.py", [], False, "train.py", []),
    ("train.py --lr 0.1 -m x", [], False, "train.py", ["--lr", "0.1", "-m", "x"]),
    ("-W ignore -X dev -u train.py a", ["-W", "ignore", "-X", "dev", "-u"], False, "train.py",
     ["a"]),
    ("-O -m package.train --fast", ["-O"], True, "package.train", ["--fast"]),
])
def test_a_script_is_started_again_as_it_was(
        tmp_path, monkeypatch, line, options, is_module, name, arguments):
    """In Python's words, and in those of torch's launcher, which reads them here."""
    from torch.distributed.run import parse_args

    as_script(monkeypatch, tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["python"] + line.split())
    with pytest.raises(Replaced) as replaced:
        fit_on_two()
    program, *command = replaced.value.args[0]
    end = len(options) + 2
    assert program == sys.executable and command[:end] == [*options, "-m", "torch.distributed.run"]
    said = parse_args(command[end:])
    assert (said.nproc_per_node, said.standalone, said.module) == ("2", True, is_module)
    assert (said.training_script, said.training_script_args) == (name, arguments)


@pytest.mark.parametrize("change, why", [
    (lambda main, at: at(sys, "ps1", ">>> ", raising=False), "interactive session"),
    (lambda main, at: at(main, "get_ipython", print, raising=False), "interactive session"),
    (lambda main, at: at(main, "__name__", "__mp_main__"), "started by another one"),
    (lambda main, at: at(main, "__file__", "<stdin>"), "there is no script"),
    (lambda main, at: at(main, "__file__", None), "there is no script"),
])
def test_what_cannot_be_started_again_is_told_how_to_launch(tmp_path, monkeypatch, change, why):
    change(as_script(monkeypatch, tmp_path), monkeypatch.setattr)
    with pytest.raises(pl.MisconfigurationException, match=why + ".*nproc_per_node=2"):
        fit_on_two()


def test_several_nodes_need_torchrun():
    with pytest.raises(pl.MisconfigurationException, match="torchrun --nnodes=2"):
        pl.Trainer(accelerator="cpu", devices=1, num_nodes=2)


def test_torchrun_with_another_number_of_processes(monkeypatch):
    said = dict(RANK="0", LOCAL_RANK="0", WORLD_SIZE="4", LOCAL_WORLD_SIZE="4",
                MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(pl.MisconfigurationException, match="torchrun has started 4 processes"):
        pl.Trainer(accelerator="cpu", devices=2)
