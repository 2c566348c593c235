"""The recorded module, callbacks, data module, optimizer and logger that scenarios are made of.

Every hook is a recorded method with the signature of edition 2.2. What it does beyond being
recorded is a function in the object's ``does``, or else the implementation's own default.
"""

import functools
import inspect

import torch
from torch.utils.data import DataLoader

# Hook and parameters, in the order of a run.
MODULE = """
configure_callbacks | prepare_data | setup stage | configure_model | to device
configure_optimizers | on_fit_start | zero_grad set_to_none=True
train_dataloader | val_dataloader | test_dataloader | predict_dataloader
on_train_start | on_train_epoch_start
on_before_batch_transfer batch dataloader_idx
transfer_batch_to_device batch device dataloader_idx
on_after_batch_transfer batch dataloader_idx
on_train_batch_start batch batch_idx | training_step batch batch_idx | forward x
optimizer_step epoch batch_idx optimizer optimizer_closure=None
on_before_zero_grad optimizer | optimizer_zero_grad epoch batch_idx optimizer
on_before_backward loss | backward loss | on_after_backward | on_before_optimizer_step optimizer
configure_gradient_clipping optimizer gradient_clip_val=None gradient_clip_algorithm=None
clip_gradients optimizer gradient_clip_val=None gradient_clip_algorithm=None
lr_scheduler_step scheduler metric | on_train_batch_end outputs batch batch_idx
on_train_epoch_end | on_train_end | on_fit_end | teardown stage | eval | train mode=True
on_validation_model_zero_grad | on_validation_model_eval
on_validation_start | on_validation_epoch_start
on_validation_batch_start batch batch_idx dataloader_idx=0
validation_step batch batch_idx dataloader_idx=0
on_validation_batch_end outputs batch batch_idx dataloader_idx=0
on_validation_epoch_end | on_validation_end
on_test_model_eval | on_test_start | on_test_epoch_start
on_test_batch_start batch batch_idx dataloader_idx=0
test_step batch batch_idx dataloader_idx=0
on_test_batch_end outputs batch batch_idx dataloader_idx=0
on_test_epoch_end | on_test_end
on_predict_model_eval | on_predict_start | on_predict_epoch_start
on_predict_batch_start batch batch_idx dataloader_idx=0
predict_step batch batch_idx dataloader_idx=0
on_predict_batch_end outputs batch batch_idx dataloader_idx=0
on_predict_epoch_end | on_predict_end
state_dict | load_state_dict state_dict strict=True
on_save_checkpoint checkpoint | on_load_checkpoint checkpoint
"""

# Recorded only where a scenario asks for them, since overriding them changes what a run does.
MODULE_ON_REQUEST = """
configure_sharded_model | on_validation_model_train | on_test_model_train
on_batch_start batch batch_idx
training_epoch_end outputs | validation_epoch_end outputs | test_epoch_end outputs
"""

CALLBACK = """
setup stage | teardown stage | on_fit_start | on_fit_end
on_sanity_check_start | on_sanity_check_end | on_train_start | on_train_end
on_train_epoch_start | on_train_epoch_end
on_train_batch_start batch batch_idx | on_train_batch_end outputs batch batch_idx
on_before_zero_grad optimizer | on_before_backward loss | on_after_backward
on_before_optimizer_step optimizer
on_validation_start | on_validation_end | on_validation_epoch_start | on_validation_epoch_end
on_validation_batch_start batch batch_idx dataloader_idx=0
on_validation_batch_end outputs batch batch_idx dataloader_idx=0
on_test_start | on_test_end | on_test_epoch_start | on_test_epoch_end
on_test_batch_start batch batch_idx dataloader_idx=0
on_test_batch_end outputs batch batch_idx dataloader_idx=0
on_predict_start | on_predict_end | on_predict_epoch_start | on_predict_epoch_end
on_predict_batch_start batch batch_idx dataloader_idx=0
on_predict_batch_end outputs batch batch_idx dataloader_idx=0
on_exception exception | on_save_checkpoint checkpoint | on_load_checkpoint checkpoint
"""

# These two get no trainer and no module.
CALLBACK_STATE = "state_dict | load_state_dict state_dict"

# Callback hooks of the editions 1.1 and 1.5 alone.
OLDER_CALLBACK_INIT = "on_init_start trainer | on_init_end trainer"
OLDER_CALLBACK = """
on_before_accelerator_backend_setup | on_configure_sharded_model
on_pretrain_routine_start | on_pretrain_routine_end
on_epoch_start | on_epoch_end | on_batch_start | on_batch_end | on_keyboard_interrupt
"""

DATAMODULE = """
prepare_data | setup stage | teardown stage
train_dataloader | val_dataloader | test_dataloader | predict_dataloader
on_before_batch_transfer batch dataloader_idx
transfer_batch_to_device batch device dataloader_idx
on_after_batch_transfer batch dataloader_idx
on_exception exception | state_dict | load_state_dict state_dict
"""

LOGGER = """
log_metrics metrics step=None | log_graph | save | finalize status
"""


def hooks(table, prefix=""):
    """Return {hook: parameters} of one of the tables above."""
    rows = [row.strip() for line in table.splitlines() for row in line.split("|")]
    return {row.split()[0]: " ".join([prefix, *row.split()[1:]]).strip() for row in rows if row}


def recorded(base, table, recorder, who=None):
    """Return a subclass of ``base`` in which each hook of ``table`` is recorded."""
    members = {hook: _method(base, hook, params, recorder, who) for hook, params in table.items()}
    return type("Recorded" + base.__name__.replace("Lightning", ""), (base,), members)


def _method(base, hook, params, recorder, who):
    default = getattr(base, hook, None)

    def method(self, *args, **kwargs):
        name = who or self.who
        if name is None:  # not recorded yet
            return default(self, *args, **kwargs)
        with recorder.event(name, hook, params, args, kwargs):
            does = self.__dict__.get("does", {}).get(hook) or DOES.get((who, hook)) or default
            return does(self, *args, **kwargs) if does else None

    method.__name__ = hook
    method.__signature__ = _signature(params)
    return method


@functools.lru_cache(maxsize=None)
def _signature(params):
    parameters = [_parameter("self")]
    parameters += [_parameter(*param.split("=")) for param in params.split()]
    return inspect.Signature(parameters)


def _parameter(name, default=inspect.Parameter.empty):
    if default is not inspect.Parameter.empty:
        default = {"None": None, "True": True}.get(default, 0)
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def rows(count):
    """Return a loader of ``count`` batches of one row; row i begins with 0.1 * (i + 1)."""
    data = torch.tensor([[0.1 * (i + 1), 1.0] for i in range(count)]).reshape(count, 2)
    return DataLoader(data, batch_size=1)


def _dataloader(stage):
    return lambda self: rows(self.batches[stage])


def _step(self, batch, batch_idx, *more, **named):
    return self(batch).sum()


# What the recorded objects do unless a scenario says otherwise.
DOES = {
    ("M", "forward"): lambda self, x: self.layer(x),
    ("M", "training_step"): _step,
    ("M", "validation_step"): _step,
    ("M", "test_step"): _step,
    ("M", "predict_step"): lambda self, batch, *more, **named: self(batch),
    ("M", "configure_optimizers"): lambda self: self.make_optimizer(),
}
for _who in "MD":
    for _stage in ("train", "val", "test", "predict"):
        DOES[_who, _stage + "_dataloader"] = _dataloader(_stage)


def module_class(impl, recorder, extra=(), without=(), params=None):
    """Return the recorded LightningModule: one layer, one dropout, ``batches`` per stage."""
    table = hooks(MODULE)
    asked = hooks(MODULE_ON_REQUEST)
    table.update({hook: asked[hook] for hook in extra})
    table.update(params or {})
    for hook in without:
        del table[hook]
    base = recorded(impl.LightningModule, table, recorder, "M")

    def __init__(self):
        base.__init__(self)
        self.layer = torch.nn.Linear(2, 1)
        self.drop = torch.nn.Dropout()
        self.batches = dict(train=2, val=2, test=2, predict=2)
        self.does = {}

    def make_optimizer(self, parameters=None, who="O"):
        return optimizer(recorder, parameters or self.parameters(), who)

    return type("RecordedModule", (base,), dict(__init__=__init__, make_optimizer=make_optimizer))


def callback_class(impl, recorder, table=None):
    """Return the recorded Callback; its instances know who they are (``c1``, ``c2``, ...)."""
    table = table or dict(hooks(CALLBACK, "trainer pl_module"), **hooks(CALLBACK_STATE))
    base = recorded(impl.Callback, table, recorder)

    def __init__(self, who, **does):
        base.__init__(self)
        self.who, self.does = who, does

    members = dict(__init__=__init__, state_key=property(lambda self: "recorded:" + self.who))
    return type("RecordedCallback", (base,), members)


def datamodule_class(impl, recorder):
    """Return the recorded LightningDataModule."""
    base = recorded(impl.LightningDataModule, hooks(DATAMODULE), recorder, "D")

    def __init__(self, batches, **does):
        base.__init__(self)
        self.batches, self.does = batches, does

    return type("RecordedDataModule", (base,), dict(__init__=__init__))


def logger(impl, recorder):
    """Return a recorded logger that keeps [step, metrics] pairs in ``logged``."""
    base = recorded(impl.Logger, hooks(LOGGER), recorder, "L")

    def log_metrics(self, metrics, step=None):
        self.logged.append([step, {name: round(float(metrics[name]), 6) for name in metrics}])

    members = dict(name="recorded", version=0, experiment=None,
                   log_hyperparams=lambda self, *args, **kwargs: None)
    instance = type("RecordedLogger", (base,), members)()
    instance.logged, instance.does = [], {"log_metrics": log_metrics}
    return instance


def optimizer(recorder, parameters, who="O", lr=0.1):
    """Return a recorded SGD."""
    table = hooks("step closure=None | zero_grad set_to_none=True")
    base = recorded(torch.optim.SGD, table, recorder)
    base.who = who
    instance = base(parameters, lr=lr)
    recorder.name(instance, who)
    return instance


def scheduler(recorder, base, *args, **kwargs):
    """Return a recorded learning rate scheduler; its own first step is not recorded."""
    Recorded = recorded(base, hooks("step metrics=None"), recorder)
    Recorded.who = None
    instance = Recorded(*args, **kwargs)
    Recorded.who = "S"
    recorder.name(instance, "S")
    return instance
