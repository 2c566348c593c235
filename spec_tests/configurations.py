"""The configurations on which an implementation is compared with ``model.py``, all enumerated.

Most are covering arrays: any two values of any two factors (in one array: any three of three)
occur together at least once, if they are possible together. What can go wrong is enumerated: an
error and an interrupt in each hook that a run has. ``validate``, ``test`` and ``predict`` are a
full product.
"""

import itertools
from typing import NamedTuple, Optional, Tuple, Union

from . import model

Batch = Optional[Tuple[int, int]]  # (epoch, batch_idx)
Batches = Union[int, Tuple[int, ...], None]  # of one loader, or of several; None: no loader


class Configuration(NamedTuple):
    """What a run is made of: entry points, flags of the Trainer, data, module, and mishaps."""

    entry: str = "fit"  # or several, one after another: "fit test"

    max_epochs: int = 1
    min_epochs: Optional[int] = None
    max_steps: int = -1
    min_steps: Optional[int] = None
    limit_train_batches: Union[int, float] = 1.0
    limit_val_batches: Union[int, float] = 1.0
    limit_test_batches: Union[int, float] = 1.0
    limit_predict_batches: Union[int, float] = 1.0
    num_sanity_val_steps: int = 2
    val_check_interval: Union[int, float] = 1.0
    check_val_every_n_epoch: Optional[int] = 1
    reload_dataloaders_every_n_epochs: int = 0
    accumulate_grad_batches: int = 1
    gradient_clip_val: Optional[float] = None
    inference_mode: bool = True

    train: Batches = 2  # several training loaders give dicts of batches, until the longest ends
    val: Batches = 2  # several evaluation loaders run one after another
    test: Batches = 2
    predict: Batches = 2
    data: str = "module"  # or "datamodule", or "arguments" of the entry point: who has the loaders

    automatic: bool = True  # or the module steps its optimizer by itself
    scheduler: Optional[Tuple[str, int]] = None  # ("step" or "epoch", frequency)
    plateau: bool = False  # the scheduler needs a metric, which validation_step logs
    in_eval: str = ""  # "module", "drop", "layer": which of them are in eval mode beforehand
    model_train: str = ""  # on_*_model_train is there, and does "nothing", or calls its "super"

    stop_at: Batch = None  # c1 sets should_stop at the end of this batch
    skip_at: Batch = None  # the module's on_train_batch_start returns -1
    none_at: Batch = None  # training_step returns None
    raises: Optional[Tuple[str, str, str, int]] = None  # (error, who, hook, at the nth such event)
    resume: Union[int, str, None] = None  # go on from a checkpoint of another run over one epoch:
    # saved at the end of batch n, or of the "validation", or of the "epoch", or of "fit" itself;
    # "file": by a ModelCheckpoint


# The values of the first configurations come first, so that those are the plain ones.
FLAGS = dict(
    max_epochs=[2, 1, 3],
    num_sanity_val_steps=[0, 2, 1, -1],
    val_check_interval=[1.0, 0.5, 1, 2, 0.25, 3],
    check_val_every_n_epoch=[1, 2, None],
    reload_dataloaders_every_n_epochs=[0, 1, 2],
    accumulate_grad_batches=[1, 2, 3],
    gradient_clip_val=[None, 0.5],
)
DATA = dict(
    train=[3, 2, 4, 1, 7, (3, 2), 0],
    val=[1, 2, (2, 1), None, 0],
    data=["module", "datamodule", "arguments"],
)
MODULE = dict(
    automatic=[True, False],
    scheduler=[None, ("epoch", 1), ("step", 1), ("step", 2), ("epoch", 2)],
    plateau=[False, True],
    in_eval=["", "drop", "module drop layer"],
    model_train=["", "super", "nothing"],
)
LIMITS = dict(
    limit_train_batches=[1.0, 2, 0.5, 0],
    limit_val_batches=[1.0, 1, 0.5, 0],
)
ENDS = dict(
    max_steps=[-1, 3, 2],
    min_epochs=[None, 2],
    min_steps=[None, 3],
)
USUAL = dict(FLAGS, **DATA, **MODULE)
PLACES = [(0, 0), (0, 1), (1, 0)]

# What decides when training is validated, stops, steps and reloads: any three of these.
WHEN = dict(
    max_epochs=[2, 3],
    train=[4, 3],
    num_sanity_val_steps=[0, 1],
    val_check_interval=[1.0, 0.5, 2, 3],
    check_val_every_n_epoch=[1, 2, None],
    reload_dataloaders_every_n_epochs=[0, 1, 2],
    accumulate_grad_batches=[1, 2, 3],
    scheduler=[None, ("step", 2), ("epoch", 1)],
    max_steps=[-1, 3],
    stop_at=[None, (0, 1), (1, 0)],
    skip_at=[None, (0, 1), (1, 0)],
)

EVALUATION = dict(
    entry=["validate", "test", "predict"],
    batches=[1, (2, 3), 0],
    limit=[1.0, 1, 0.5, 0],
    inference_mode=[True, False],
    data=["module", "datamodule", "arguments"],
)

# Each of these runs is made to fail in each of its hooks.
FAILING = [
    Configuration(max_epochs=2, val=1, num_sanity_val_steps=1, scheduler=("step", 1)),
    Configuration(data="datamodule", accumulate_grad_batches=2, model_train="super"),
    Configuration(automatic=False, train=(2, 1), data="arguments"),
    Configuration(max_epochs=2, resume="epoch", scheduler=("epoch", 1), plateau=True),
    Configuration(entry="validate", in_eval="drop"),
    Configuration(entry="test", data="datamodule"),
    Configuration(entry="predict", predict=(1, 2), inference_mode=False),
]


def training():
    """Flags, data and module: what goes on without an incident."""
    return covering(dict(USUAL, **LIMITS)) + covering(dict(FLAGS, **DATA, **LIMITS))


def when():
    """What decides when: any three of these together."""
    return covering(WHEN, strength=3)


def stopping():
    """A stop request, and other ends."""
    return covering(dict(USUAL, **ENDS, stop_at=PLACES))


def skipping():
    """The rest of an epoch is skipped; a training step returns None."""
    return covering(dict(USUAL, **ENDS, skip_at=PLACES + [None], none_at=[None] + PLACES))


def resuming():
    """A run that goes on from the checkpoint of another."""
    moments = [0, "epoch", 1, "fit", "validation", 2]
    return covering(dict(USUAL, max_steps=[-1, 4], resume=moments))


def possible(given):
    """Return whether the given values, perhaps not of all factors yet, go together."""
    value = Configuration()._replace(**given)
    if not value.automatic and (value.accumulate_grad_batches > 1 or value.gradient_clip_val):
        return False  # refused
    if value.check_val_every_n_epoch is None and isinstance(given.get("val_check_interval"), float):
        return False  # refused
    if value.plateau and "scheduler" in given and value.scheduler is None:
        return False
    if not isinstance(value.resume, int):
        return not (value.plateau and value.resume == "validation")
    # Metrics are not in a checkpoint.
    return not value.plateau and value.resume < (
        value.train if isinstance(value.train, int) else max(value.train))


def covering(factors, strength=2):
    """Return configurations in which any two (or ``strength``) values occur together.

    Each is built around a combination that has not occurred yet: of every further factor it takes
    the value that adds the most such combinations, the first of them if several do.
    """
    missing = combinations(factors, strength)
    made = []
    while missing:
        chosen = dict(next(iter(missing)))
        for factor in factors:
            if factor not in chosen:
                chosen[factor] = _best(factors, factor, chosen, missing, strength)
        for each in _within(factors, chosen, strength):
            missing.pop(each, None)
        made.append(Configuration(**_values(factors, chosen)))
    return made


def combinations(factors, strength):
    """Return the possible combinations of so many values, as ((factor, place of value), ...)."""
    places = [[(factor, at) for at in range(len(factors[factor]))] for factor in factors]
    every = (each for several in itertools.combinations(places, strength)
             for each in itertools.product(*several))
    return dict.fromkeys(each for each in every if possible(_values(factors, dict(each))))


def _best(factors, factor, chosen, missing, strength):
    def adds(at):
        with_it = dict(chosen, **{factor: at})
        return sum(each in missing for each in _within(factors, with_it, strength, factor))

    able = [at for at in range(len(factors[factor]))
            if possible(_values(factors, dict(chosen, **{factor: at})))]
    return max(able, key=adds)


def _within(factors, chosen, strength, factor=None):
    pairs = [(name, chosen[name]) for name in factors if name in chosen]
    for each in itertools.combinations(pairs, strength):
        if factor is None or (factor, chosen[factor]) in each:
            yield each


def _values(factors, chosen):
    return {factor: factors[factor][at] for factor, at in chosen.items()}


def failing():
    """Yield an error at the first call and an interrupt at the last call of each hook.

    Of each of the runs those hooks are taken that the ones before it do not have.
    """
    seen = set()
    for config in FAILING:
        events = [(event.who, event.hook) for event in model.events(config)]
        ends = [-1] + [at for at, (who, _) in enumerate(events) if who == "trainer"]
        hooks = [each for each in events[ends[-2] + 1:-1] if each[0] != "c2"]
        for hook in dict.fromkeys(hooks):
            if hook not in seen:
                yield config._replace(raises=("RuntimeError", *hook, 1))
                yield config._replace(raises=("KeyboardInterrupt", *hook, hooks.count(hook)))
        seen.update(hooks)


def evaluation():
    """Yield the product for ``validate``, ``test`` and ``predict``, and one call after another."""
    loaders = dict(validate="val", test="test", predict="predict")
    for entry, batches, limit, inference_mode, data in itertools.product(*EVALUATION.values()):
        kind = loaders[entry]
        yield Configuration(**{"entry": entry, kind: batches, "limit_%s_batches" % kind: limit,
                               "inference_mode": inference_mode, "data": data})
    for entry, in_eval, model_train in itertools.product(
            loaders, MODULE["in_eval"], MODULE["model_train"]):
        yield Configuration(entry=entry, in_eval=in_eval, model_train=model_train)
    for pair in itertools.product(["fit", *loaders], repeat=2):
        yield Configuration(entry=" ".join(pair))


def needs(config, events):
    """Return the capabilities that a configuration, with these events, asks for.

    ``beyond`` is asked for where our rules go further than any implementation of edition 2.2.
    """
    found = set()
    if config.resume is not None and (
            config.resume not in ("fit", "file") or config.max_steps != -1):
        found.add("beyond")  # a run resumed anywhere goes on as if it had not been stopped
    if config.skip_at and config.scheduler and config.scheduler[0] == "epoch":
        found.add("beyond")  # epoch schedulers step in a skipped epoch, too
    if any((event.who, event.hook) == ("D", "on_exception") for event in events):
        found.add("datamodule_on_exception")
    return found


GROUPS = {each.__name__: each for each in (
    training, when, stopping, skipping, resuming, failing, evaluation)}
