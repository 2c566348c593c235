"""A module whose parameters two processes share trains as it does in one process.

Training, its gradient clipping, accumulation, validation of an odd number of samples and resuming
are played once in one process and once in two; ``fsdp_ranks.py`` says what. On GPUs the tolerance
is wider, since sums are taken in another order.
"""

import importlib
import os
import socket
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from .adapter import EDITIONS  # noqa: E402
from .fsdp_ranks import difference  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="module")
def both(request, tmp_path_factory):
    """Return the folder with what one process and two have left, of who claims what is beyond."""
    impl = request.config.implementations[0]
    if "MORE_PROCESSES" not in os.environ:
        pytest.skip("takes long; MORE_PROCESSES=1")
    if not EDITIONS["beyond"] <= impl.capabilities:
        pytest.skip("%s: edition beyond is not claimed" % impl.name)
    if not importlib.util.find_spec("torch.distributed.fsdp"):
        pytest.skip("this torch has no fully_shard")
    folder = str(tmp_path_factory.mktemp("fsdp"))
    start([], impl.name, folder, "auto")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    start(["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_addr=127.0.0.1",
           "--master_port=%d" % port], impl.name, folder, "fsdp")
    return folder


def start(launcher, name, folder, strategy):
    """Play in processes of their own."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([ROOT] + sys.path),
                       OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    done = subprocess.run(
        [sys.executable, *launcher, "-m", __package__ + ".fsdp_ranks", name, folder, strategy,
         "cpu"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=300)
    assert done.returncode == 0, done.stdout.decode()[-3000:]


def left(folder, name):
    """Return what a process has left."""
    return torch.load(os.path.join(folder, name), weights_only=True)


def test_each_process_holds_its_share(both):
    whole, *shares = [left(both, name)["held"] for name in ("auto.0", "fsdp.0", "fsdp.1")]
    assert whole == 3 + 15 + 4 and sum(shares) == whole and max(shares) < whole


@pytest.mark.parametrize("file", ["%s.ckpt", "%s_end.ckpt"])
def test_checkpoints_are_those_of_one_process(both, file):
    one, two = left(both, file % "auto"), left(both, file % "fsdp")
    for part in ("state_dict", "optimizer_states"):
        assert difference(one[part], two[part]) < 1e-5
    assert one["global_step"] == two["global_step"]
    weights = left(both, "auto.ckpt")["state_dict"], left(both, "auto_end.ckpt")["state_dict"]
    assert difference(*weights) > 1e-3  # it has gone on


def test_evaluation_sees_each_sample_once(both):
    one, first, second = [left(both, name) for name in ("auto.0", "fsdp.0", "fsdp.1")]
    assert sorted(first["seen"] + second["seen"]) == one["seen"] == [0.0, 1.0, 2.0, 3.0, 4.0]
    for when in ("before", "after"):
        assert abs(first[when] - one[when]) < 1e-5 and first[when] == second[when]


def test_one_process_goes_on_from_the_file_of_two(both, request, tmp_path):
    impl = request.config.implementations[0]
    ranks = importlib.import_module(__package__ + ".fsdp_ranks")
    trainer = ranks.trainer(impl.package, 1, accelerator="cpu", max_epochs=ranks.EPOCHS)
    module = ranks.make(impl.package)()
    trainer.fit(module, ranks.Ordered(ranks.data(16, 4), trainer),
                ckpt_path=os.path.join(both, "fsdp.ckpt"))
    end = left(both, "auto_end.ckpt")["state_dict"]
    assert difference(end, dict(module.state_dict())) < 1e-5
