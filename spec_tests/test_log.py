"""`self.log` and `self.log_dict`: which values, with which weight, and what they refuse.

What is expected was recorded from Lightning 2.2.5. Tests whose name starts with ``test_beyond`` ask
for more, or for something else, and say what Lightning does. Three batches of two rows each; the
batch index is what is logged, unless a test says otherwise.
"""

import dataclasses
import sys
import warnings
from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from .asking import ask  # noqa: E402


class Namespace:
    """The implementation's classes, and one fit that says what was logged."""

    def __init__(self, impl, root):
        self.impl, self.root = impl, root

    def fit(self, step, batches=None, logger=True, made=None, loader=None, **flags):
        """Run a fit whose training_step is `step`; return the trainer and (step, metrics) rows."""
        rows = []

        class Recorder(self.impl.Logger):
            name, version, experiment, save_dir = "recorder", 0, None, None

            def log_metrics(self, metrics, step=None):
                rows.append((step, {k: round(v, 5) for k, v in metrics.items() if k != "epoch"}))

            def log_hyperparams(self, *args, **kwargs):
                pass

        class Model(self.impl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)
                for name, value in (made or {}).items():
                    setattr(self, name, value)

            def training_step(self, batch, batch_idx):
                step(self, batch, batch_idx)
                return self.layer(torch.ones(1, 2)).sum() * 0

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

            def train_dataloader(self):
                given = batches or [torch.full((2, 2), float(i)) for i in range(3)]
                return loader or DataLoader(given, batch_size=None)

        quiet = {
            "enable_progress_bar": False, "enable_model_summary": False, "max_epochs": 1,
            "enable_checkpointing": False, "accelerator": "cpu", "devices": 1,
            "log_every_n_steps": 1, "default_root_dir": str(self.root),
        }
        trainer = self.impl.trainer(logger=Recorder() if logger else False, **{**quiet, **flags})
        trainer.fit(Model())
        return trainer, rows


pytestmark = pytest.mark.usefixtures("no_noise")


@pytest.fixture
def pl(impl, request, tmp_path):
    """Ask those who claim the edition of the test."""
    ask(request, impl)
    return Namespace(impl, tmp_path)


EPOCH = {"on_step": False, "on_epoch": True}
BOTH = {"on_step": True, "on_epoch": True}


def epoch_value(rows, name="x"):
    """Return the one value of the epoch."""
    (value,) = [metrics[name] for step, metrics in rows if name in metrics]
    return value


# Values


@pytest.mark.parametrize("value, kept", [
    (2, 2), (True, 1), (0.5, 0.5), (Fraction(1, 2), 0.5), (torch.tensor(3), 3),
    (torch.ones(1, 1), 1), (torch.tensor(0.5, dtype=torch.float64), 0.5)], ids=str)
def test_any_one_real_number_is_logged(pl, value, kept):
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", value))
    assert rows == [(step, {"x": kept}) for step in range(3)]
    assert trainer.callback_metrics["x"].shape == ()


@pytest.mark.parametrize("value", [
    None, "a", [1.0], {"a": 1.0}, torch.ones(2), torch.ones(0)], ids=str)
def test_what_is_no_single_number_is_refused(pl, value):
    with pytest.raises(ValueError, match="x"):
        pl.fit(lambda module, batch, i: module.log("x", value))


def test_a_mapping_inside_log_dict_is_refused(pl):
    with pytest.raises(ValueError):
        pl.fit(lambda module, batch, i: module.log_dict({"x": {"a": 1.0}}))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_over_an_epoch_are_kept_in_32_bits(pl, dtype):
    value = torch.tensor(0.1, dtype=dtype)
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", value, **EPOCH),
                           batches=[torch.ones(2, 2)] * 300)
    assert trainer.callback_metrics["x"].dtype == torch.float32
    assert trainer.callback_metrics["x"].item() == pytest.approx(value.item(), rel=1e-5)


def test_64_bits_stay_64_bits(pl):
    value = torch.tensor(0.1, dtype=torch.float64)
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", value, **EPOCH))
    assert trainer.callback_metrics["x"].dtype == torch.float64


def test_values_are_kept_without_their_graph(pl):
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", module.layer.weight.sum()))
    assert not trainer.callback_metrics["x"].requires_grad


# Reductions and weights


@pytest.mark.parametrize("reduce_fx, value", [
    ("mean", 1), ("avg", 1), ("sum", 3), ("min", 0), ("max", 2), ("MAX", 2), (torch.mean, 1),
    (torch.sum, 3), (sum, 3), (min, 0), (max, 2)],
    ids=lambda each: getattr(each, "__name__", str(each)))
def test_reductions(pl, reduce_fx, value):
    trainer, rows = pl.fit(
        lambda module, batch, i: module.log("x", i, reduce_fx=reduce_fx, **EPOCH))
    assert rows == [(2, {"x": value})]


def test_an_unknown_reduction_is_refused(pl):
    with pytest.raises(Exception, match="mean.*sum|max.*mean") as refusal:
        pl.fit(lambda module, batch, i: module.log("x", i, reduce_fx="median"))
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_beyond_a_function_reduces_the_values_of_the_epoch(pl):
    """Lightning 2.2.5 and 2.6.6: MisconfigurationException."""
    def step(module, batch, i):
        module.log("x", float(i) ** 2, reduce_fx=torch.median, **EPOCH)
        module.log("y", float(i) ** 2, reduce_fx=lambda values: values[-1] - values[1], **EPOCH)

    trainer, rows = pl.fit(step)
    assert rows == [(2, {"x": 1, "y": 3})]


@dataclasses.dataclass
class Pair:
    """A batch of one's own."""

    word: str
    rows: torch.Tensor


ROWS = [torch.ones(1, 2), torch.ones(2, 2), torch.ones(5, 2)]
WEIGHTS = [
    ("tensors", ROWS, {}, 1.5),
    ("given", ROWS, {"batch_size": 4}, 1),
    ("of a mapping", [{"x": rows, "n": 3} for rows in ROWS], {}, 1.5),
    ("of a pair", [(rows, rows.sum(1)) for rows in ROWS], {}, 1.5),
    ("nested", [{"x": [(rows,)]} for rows in ROWS], {}, 1.5),
    ("of a data class", [Pair("a word", rows) for rows in ROWS], {}, 1.5),
    ("the first tensor's, after text", [(["a", "b", "c"], rows) for rows in ROWS], {}, 1.5),
    ("no dimension: 1", [torch.tensor(float(i)) for i in range(3)], {}, 1),
    ("the first tensor's", [(rows, torch.ones(7)) for rows in ROWS], {}, 1.5),
    ("sums have none", ROWS, {"reduce_fx": "sum"}, 3),
]


@pytest.mark.parametrize("batches, how, mean", [row[1:] for row in WEIGHTS],
                         ids=[row[0] for row in WEIGHTS])
def test_the_mean_is_weighted_by_batch_size(pl, batches, how, mean):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*batch.size.*")
        trainer, rows = pl.fit(lambda module, batch, i: module.log("x", i, **EPOCH, **how),
                               batches=batches)
    assert epoch_value(rows) == mean


def test_a_metric_of_the_name_step_is_the_step(pl):
    trainer, rows = pl.fit(lambda module, batch, i: (module.log("step", 10.0 * i),
                                                     module.log("x", i)))
    assert rows == [(0, {"x": 0}), (10, {"x": 1}), (20, {"x": 2})]


def test_a_batch_size_of_0_leaves_the_value_out(pl):
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", i, batch_size=i, **EPOCH))
    assert epoch_value(rows) == round(5 / 3, 5)


def test_batch_sizes_that_differ_in_a_batch_are_told(pl):
    # Lightning says so once per process and size: no other test has a first size of 3.
    with pytest.warns(UserWarning, match="batch.size="):
        pl.fit(lambda module, batch, i: module.log("x", i, **EPOCH),
               batches=[(torch.ones(3, 2), torch.ones(7))])


NO_SIZE = [("number", 3), ("object", object()), ("empty", {}), ("none", [None])]


@pytest.mark.parametrize("batch", [row[1] for row in NO_SIZE], ids=[row[0] for row in NO_SIZE])
def test_a_batch_size_that_cannot_be_told_is_refused_with_the_way_out(pl, batch):
    with pytest.raises(Exception, match="batch_size=") as refusal:
        pl.fit(lambda module, batch, i: module.log("x", i, **EPOCH), batches=[batch] * 2)
    assert type(refusal.value).__name__ == "MisconfigurationException"


@pytest.mark.parametrize("how", [
    {}, {"batch_size": 2, **EPOCH}, {"reduce_fx": "max", **EPOCH}], ids=["step", "given", "max"])
def test_a_batch_size_is_not_asked_for_where_it_does_not_count(pl, how):
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", 1, **how), batches=[3, 4])
    assert rows[-1] == (1, {"x": 1})


def test_beyond_without_a_tensor_strings_are_counted(pl):
    """Lightning 2.2.5 and 2.6.6: MisconfigurationException."""
    trainer, rows = pl.fit(lambda module, batch, i: module.log("x", i, **EPOCH),
                           batches=[["a"], ["a", "b", "c"]])
    assert epoch_value(rows) == 0.75


# Names and settings


def test_one_name_may_be_logged_twice_in_a_step(pl):
    def step(module, batch, i):
        module.log("x", i, **BOTH)
        module.log("x", i + 2, **BOTH)

    trainer, rows = pl.fit(step)
    assert rows == [(0, {"x_step": 2}), (1, {"x_step": 3}), (2, {"x_step": 4}), (2, {"x_epoch": 2})]


SETTINGS = [{"on_epoch": True}, {"prog_bar": True}, {"logger": False}, {"reduce_fx": "max"},
            {"rank_zero_only": True}, {"enable_graph": True}]


@pytest.mark.parametrize("other", SETTINGS, ids=lambda other: next(iter(other)))
def test_one_name_with_other_settings_in_one_hook_is_refused(pl, other):
    def step(module, batch, i):
        module.log("x", 1.0)
        module.log("x", 1.0, **other)

    with pytest.raises(Exception, match="x") as refusal:
        pl.fit(step)
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_a_name_that_looks_like_that_of_a_loader_is_refused(pl):
    with pytest.raises(Exception, match="dataloader_idx") as refusal:
        pl.fit(lambda module, batch, i: module.log("x/dataloader_idx_0", 1.0))
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_neither_step_nor_epoch_is_refused(pl):
    with pytest.raises(Exception, match="on_step=False, on_epoch=False") as refusal:
        pl.fit(lambda module, batch, i: module.log("x", 1.0, on_step=False, on_epoch=False))
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_all_arguments_of_2_2_are_taken(pl):
    def step(module, batch, i):
        module.log("x", i, False, None, None, None, "mean", False, True, None, True, 3, "any", True)
        module.log_dict({"y": i}, False, None, None, None, "mean", False, True, None, True, 3, True)

    trainer, rows = pl.fit(step)
    assert rows == [(i, {"x": i, "y": i}) for i in range(3)]


def test_log_dict_passes_its_arguments_on(pl):
    trainer, rows = pl.fit(lambda module, batch, i: module.log_dict(
        {"x": i, "y": 2 * i}, reduce_fx="max", logger=True, prog_bar=True, **EPOCH))
    assert rows == [(2, {"x": 2, "y": 4})]
    assert trainer.progress_bar_metrics == {"x": 2, "y": 4}


def test_log_dict_takes_no_other_arguments(pl):
    with pytest.raises(TypeError):
        pl.fit(lambda module, batch, i: module.log_dict({"x": 1.0}, on_batch=True))


def test_a_logger_that_is_not_there_is_told(pl):
    with pytest.warns(UserWarning, match="logger"):
        pl.fit(lambda module, batch, i: module.log("x", 1.0, logger=True), logger=False)


# Metric objects


class Largest(torch.nn.Module):
    """The protocol of a metric object, written out: the largest value of an epoch."""

    def __init__(self):
        super().__init__()
        self._forward_cache = None
        self.resets = 0
        self.values = []

    def update(self, value):
        self.values.append(value)

    def forward(self, value):
        self.update(value)
        self._forward_cache = torch.tensor(value)
        return self._forward_cache

    def compute(self):
        return torch.tensor(max(self.values))

    def reset(self):
        self.values, self._forward_cache = [], None
        self.resets += 1


def test_beyond_a_metric_object_of_one_s_own_follows_the_protocol(pl):
    """Lightning 2.2.5 and 2.6.6 take those of torchmetrics only: ValueError."""
    largest = Largest()

    def step(module, batch, i):
        module.largest(float((2 - i) * (1 + module.current_epoch)))
        module.log("x", module.largest, **BOTH)

    trainer, rows = pl.fit(step, made={"largest": largest}, max_epochs=2)
    assert rows == [(0, {"x_step": 2}), (1, {"x_step": 1}), (2, {"x_step": 0}), (2, {"x_epoch": 2}),
                    (3, {"x_step": 4}), (4, {"x_step": 2}), (5, {"x_step": 0}), (5, {"x_epoch": 4})]
    assert largest.resets >= 2


def test_beyond_a_metric_object_need_not_be_a_module(pl):
    """Lightning 2.2.5 and 2.6.6: ValueError."""
    class Count:
        total = 0

        def compute(self):
            return self.total

        def reset(self):
            self.total = 0

    count = Count()

    def step(module, batch, i):
        count.total += 1
        module.log("x", count, **BOTH)

    trainer, rows = pl.fit(step, max_epochs=2)
    assert rows == [(2, {"x_epoch": 3}), (5, {"x_epoch": 3})]


def test_beyond_a_result_of_several_numbers_is_refused(pl):
    """Lightning 2.2.5 and 2.6.6 do so with the metrics of torchmetrics: ValueError."""
    largest = Largest()
    largest.compute = lambda: torch.ones(2)

    def step(module, batch, i):
        module.largest(1.0)
        module.log("x", module.largest, **EPOCH)

    with pytest.raises(ValueError, match="x"):
        pl.fit(step, made={"largest": largest})


# With torchmetrics, where it is installed


@pytest.fixture
def metrics():
    return pytest.importorskip("torchmetrics")


def test_a_metric_object_gives_its_own_values(pl, metrics):
    def step(module, batch, i):
        module.mean(batch)
        module.log("m", module.mean, **BOTH)

    trainer, rows = pl.fit(step, made={"mean": metrics.MeanMetric()}, max_epochs=2)
    one = [{"m_step": 0}, {"m_step": 1}, {"m_step": 2}, {"m_epoch": 1}]
    assert [values for step, values in rows] == one * 2


def test_a_metric_object_that_is_only_updated_has_no_step_value(pl, metrics):
    def step(module, batch, i):
        module.mean.update(batch)
        module.log("m", module.mean, **BOTH)

    trainer, rows = pl.fit(step, made={"mean": metrics.MeanMetric()})
    assert rows == [(2, {"m_epoch": 1})]


def test_a_metric_object_needs_no_batch_size(pl, metrics):
    def step(module, batch, i):
        module.mean.update(batch)
        module.log("m", module.mean, **EPOCH)

    trainer, rows = pl.fit(step, made={"mean": metrics.MeanMetric()}, batches=[3, 5])
    assert rows == [(1, {"m": 4})]


def collection(metrics):
    return metrics.MetricCollection(
        {"a": metrics.MeanMetric(), "b": metrics.MaxMetric()}, prefix="t_")


def test_log_dict_takes_a_collection_of_metrics(pl, metrics):
    def step(module, batch, i):
        module.both(batch)
        module.log_dict(module.both, **BOTH)

    trainer, rows = pl.fit(step, made={"both": collection(metrics)}, max_epochs=2)
    one = [{"t_a_step": 0, "t_b_step": 0}, {"t_a_step": 1, "t_b_step": 1},
           {"t_a_step": 2, "t_b_step": 2}, {"t_a_epoch": 1, "t_b_epoch": 2}]
    assert [values for step, values in rows] == one * 2


def test_log_dict_takes_what_a_collection_returned(pl, metrics):
    trainer, rows = pl.fit(lambda module, batch, i: module.log_dict(module.both(batch)),
                           made={"both": collection(metrics)})
    assert rows[-1] == (2, {"t_a": 2, "t_b": 2})


def test_a_collection_cannot_be_logged_under_one_name(pl, metrics):
    with pytest.raises(ValueError, match="MetricCollection"):
        pl.fit(lambda module, batch, i: module.log("x", module.both),
               made={"both": collection(metrics)})


def test_a_metric_object_outside_the_module_is_refused(pl, metrics):
    loose = metrics.MeanMetric()

    def step(module, batch, i):
        loose(batch)
        module.log("m", loose, **EPOCH)

    with pytest.raises(Exception, match="attribute") as refusal:
        pl.fit(step, made={"another": metrics.MeanMetric()})
    assert type(refusal.value).__name__ == "MisconfigurationException"


def test_metric_attribute_says_where_a_metric_object_is(pl, metrics):
    def step(module, batch, i):
        module.kept[0](batch)
        module.log("m", module.kept[0], metric_attribute="kept", **EPOCH)

    trainer, rows = pl.fit(step, made={"kept": [metrics.MeanMetric()]})
    assert rows == [(2, {"m": 1})]


# Cost


READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__",
         "is_nonzero")


def reads_per_step(pl, monkeypatch, **how):
    """Return how often values were read by the third, fourth, ... of nine steps.

    What waits for a GPU is reading a tensor as a number, or moving it to the CPU.
    """
    reads, seen = [], []
    for name in READS:
        original = getattr(torch.Tensor, name)

        def reading(tensor, *args, original=original, **kwargs):
            reads.append(1)
            return original(tensor, *args, **kwargs)
        monkeypatch.setattr(torch.Tensor, name, reading)

    def step(module, batch, i):
        seen.append(len(reads))
        module.log("loss", module.layer.weight.sum(), **BOTH, **how)
        module.log_dict({"a": torch.tensor(1.0), "b": 2.0}, reduce_fx="max", **BOTH, **how)

    pl.fit(step, batches=[torch.ones(2, 2)] * 9, log_every_n_steps=100)
    assert len(seen) == 9
    return [after - before for before, after in zip(seen[2:], seen[3:])]


def test_no_step_reads_a_value_back(pl, monkeypatch):
    assert reads_per_step(pl, monkeypatch) == [0] * 6


def test_beyond_no_step_reads_what_a_bar_would_show(pl, monkeypatch):
    """Lightning 2.2.5 and 2.6.6 read such a value at every step, even without a bar."""
    assert reads_per_step(pl, monkeypatch, prog_bar=True) == [0] * 6


def calls_per_step(pl, step):
    """Return how many Python and C functions are called from step 10 to step 30, per step."""
    counted = [0]

    def profile(frame, event, argument):
        counted[0] += event in ("call", "c_call")

    def timed(module, batch, i):
        if i == 30:
            sys.setprofile(None)
        step(module, batch, i)
        if i == 10:
            sys.setprofile(profile)

    try:
        pl.fit(timed, batches=[torch.ones(2, 2)] * 40, log_every_n_steps=100)
    finally:
        sys.setprofile(None)
    return counted[0] / 20


def test_beyond_one_call_costs_at_most_80_calls(pl):
    """Lightning 2.2.5: about 230; 2.6.6: about 1,800."""
    def nothing(module, batch, i):
        pass

    plain = calls_per_step(pl, nothing)
    one = calls_per_step(pl, lambda module, batch, i: module.log("x", 1.0, prog_bar=True, **BOTH))
    assert one - plain <= 80
