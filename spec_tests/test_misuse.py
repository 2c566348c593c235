"""Misuse is refused at once, with an error that says what was wrong, where, and what is accepted.

Each row: what is written, the exception, and words of its message. The exceptions are those that
Lightning 2.2.5 raises for the same line. Two marks tell where it does not: `*` where it goes on, or
stumbles over something else later (a TypeError, a KeyError, ...), and `^` where it raises another
error on purpose, and a ruling of this project stands in the comment beside it.

Good messages are what no edition promises: these tests are for those who offer what is beyond.
"""

import importlib
import logging

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset  # noqa: E402

from .asking import ask  # noqa: E402

MIS, RUN = "MisconfigurationException", "RuntimeError"

MISSING = [
    ("fit(without('training_step'))", MIS, "fit Mine.training_step"),
    ("fit(without('configure_optimizers'))", MIS, "fit Mine.configure_optimizers"),
    ("trainer().validate(without('validation_step'), D)", MIS, "validate Mine.validation_step"),
    ("trainer().test(M(), D)", MIS, "test M.test_step"),
    ("fit(M(), None)", MIS, "fit loader train_dataloader M"),
    ("trainer().validate(M())", MIS, "validate loader val_dataloader"),
    ("trainer().test(having(test_step=lambda self, batch, batch_idx: None))", MIS,
     "test loader test_dataloader"),
    ("trainer().predict(having(forward=lambda self, x: x))", MIS,
     "predict loader predict_dataloader"),
    ("trainer().fit(M(), datamodule=LightningDataModule())", MIS,
     "fit loader train_dataloader data module"),
]

KINDS = [  # what is no module, loader or data module
    ("fit(M)", "TypeError", "fit LightningModule class M instance"),
    ("fit(torch.nn.Linear(2, 1))", "TypeError", "fit LightningModule Linear training_step"),
    ("fit(None)", "TypeError", "fit LightningModule NoneType"),
    ("trainer().validate()", "TypeError", "validate LightningModule"),
    ("fit(M(), 7)", "TypeError", "fit 7 iterable DataLoader"),
    ("fit(M(), [D, 7])", "TypeError", "fit 7 iterable"),
    ("fit(M(), {'a': D, 'b': None})", "TypeError", "fit None iterable"),
    ("fit(M(), [])", "TypeError*", "fit [] iterable"),
    ("fit(M(), DataLoader)", "TypeError", "fit class DataLoader iterable"),
    ("fit(M(), ['data'])", "TypeError", "fit 'data' iterable"),
    ("fit(having(__init__=lambda self: None))", MIS + "*", "Mine.__init__ super().__init__()"),
    ("fit(having(train_dataloader=lambda self: None), None)", "TypeError",
     "train_dataloader None iterable"),
    ("trainer().fit(M(), D, datamodule=LightningDataModule())", MIS,
     "fit loaders data module one of them"),
    ("trainer().validate(M(), D, datamodule=LightningDataModule())", MIS,
     "validate loaders data module"),
    ("trainer().fit(M(), datamodule=LightningDataModule)", "TypeError*",
     "fit datamodule LightningDataModule"),
]

FLAGS = [
    ("trainer(max_epoch=3)", "TypeError", "max_epoch=3 max_epochs"),
    ("trainer(gpus=1)", "TypeError", "gpus=1 accelerator='gpu' devices"),
    ("trainer(benchmark=True)", "TypeError*", "benchmark=True torch.backends.cudnn"),
    ("trainer(resume_from_checkpoint='x')", "TypeError", "resume_from_checkpoint fit ckpt_path"),
    ("trainer(accelerator='quantum')", "ValueError", "accelerator 'quantum' 'cpu'"),
    ("trainer(strategy='hope')", "ValueError", "strategy 'hope' 'auto'"),
    ("trainer(strategy=7)", "ValueError", "strategy=7 'auto' 'ddp' object"),
    ("trainer(precision='12')", "ValueError", "precision '12' '32'"),
    ("trainer(devices=0)", MIS, "devices 0 1"),
    ("trainer(devices=1.5)", "TypeError", "devices 1.5 1"),
    ("trainer(devices=None)", "TypeError", "devices None 1"),
    ("trainer(num_nodes=0)", "ValueError", "num_nodes 0 at least 1"),
    ("trainer(max_epochs=-2)", MIS, "max_epochs -2 -1"),
    ("trainer(max_epochs=1.5)", MIS + "*", "max_epochs 1.5 int"),
    ("trainer(max_steps=-2)", MIS, "max_steps -2 -1"),
    ("trainer(max_steps=None)", MIS + "*", "max_steps None int"),
    ("trainer(min_epochs=-1)", MIS + "*", "min_epochs -1 0"),
    ("trainer(min_steps=-1)", MIS + "*", "min_steps -1 0"),
    ("trainer(limit_train_batches=-1)", MIS, "limit_train_batches -1 0.0 1.0 int"),
    ("trainer(limit_train_batches=1.5)", MIS, "limit_train_batches 1.5 0.0 1.0 int"),
    ("trainer(limit_val_batches=-0.1)", MIS, "limit_val_batches -0.1 1.0"),
    ("trainer(limit_test_batches='all')", MIS + "*", "limit_test_batches 'all' 1.0 int"),
    ("trainer(limit_predict_batches=2.0)", MIS + "*", "limit_predict_batches 2.0 1.0 int"),
    ("trainer(overfit_batches=-1)", MIS, "overfit_batches -1 1.0 int"),
    ("trainer(overfit_batches=1.1)", MIS, "overfit_batches 1.1 1.0 int"),
    ("trainer(fast_dev_run=-1)", MIS, "fast_dev_run -1 int"),
    ("trainer(val_check_interval=-1)", MIS, "val_check_interval -1 1.0"),
    ("trainer(val_check_interval=1.2)", MIS, "val_check_interval 1.2 1.0"),
    ("trainer(check_val_every_n_epoch=0)", MIS + "*", "check_val_every_n_epoch 0 1 None"),
    ("trainer(check_val_every_n_epoch=None, val_check_interval=0.5)", MIS,
     "check_val_every_n_epoch=None val_check_interval=0.5 int"),
    ("trainer(num_sanity_val_steps=-2)", MIS + "*", "num_sanity_val_steps -2 -1"),
    ("trainer(log_every_n_steps=-1)", MIS + "*", "log_every_n_steps -1 0"),
    ("trainer(accumulate_grad_batches=0)", MIS + "*", "accumulate_grad_batches 0 1"),
    ("trainer(accumulate_grad_batches={0: 2})", MIS + "*", "accumulate_grad_batches {0: 2} int"),
    ("trainer(gradient_clip_val='1')", "TypeError", "gradient_clip_val '1' float"),
    ("trainer(gradient_clip_algorithm='max')", MIS, "gradient_clip_algorithm 'max' 'norm' 'value'"),
    ("trainer(reload_dataloaders_every_n_epochs=-1)", MIS,
     "reload_dataloaders_every_n_epochs -1 0"),
    ("trainer(deterministic='maybe')", MIS + "*", "deterministic 'maybe' 'warn'"),
    ("trainer(logger='csv')", MIS + "*", "logger 'csv' Logger True False"),
    ("fit(M(), D, limit_train_batches=0.1)", MIS, "limit_train_batches=0.1 4 0.25"),
    ("fit(M(), D, D, limit_val_batches=0.1)", MIS, "limit_val_batches=0.1 4 0.25"),
    ("fit(M(), D, D, val_check_interval=5)", "ValueError",
     "val_check_interval=5 4 check_val_every_n_epoch=None"),
    ("fit(M(), endless(), limit_train_batches=0.5)", MIS, "limit_train_batches=0.5 int"),
    ("fit(M(), endless(), val_check_interval=0.5)", MIS, "val_check_interval=0.5 int"),
]

CALLBACKS = [
    ("trainer(callbacks=[M()])", MIS + "*", "callbacks M Callback"),
    ("trainer(callbacks=[Callback])", MIS + "*", "callbacks Callback instance class"),
    ("trainer(callbacks='early')", MIS + "*", "callbacks 'early' Callback list"),
    ("fit(having(configure_callbacks=lambda self: [7]))", MIS + "*",
     "configure_callbacks 7 Callback"),
    ("trainer(callbacks=[Counter(), Counter()])", RUN, "state_key 'Counter'"),
    ("fit(having(configure_callbacks=lambda self: [Counter(), Counter()]))", RUN + "*",
     "state_key 'Counter'"),
    ("trainer(callbacks=[ModelCheckpoint()], enable_checkpointing=False)", MIS,
     "enable_checkpointing=False ModelCheckpoint"),
    ("trainer(callbacks=[ProgressBar(), ProgressBar()], enable_progress_bar=True)", MIS,
     "callbacks 2 progress bars one"),
    ("ProgressBar(refresh_rate=-1)", MIS + "*", "ProgressBar refresh_rate=-1 0"),
    ("ProgressBar(process_position=-1)", MIS + "*", "ProgressBar process_position=-1 0"),
    ("ProgressBar().trainer", "TypeError", "ProgressBar trainer run"),
    ("ModelSummary(max_depth=-2)", "ValueError*", "ModelSummary max_depth=-2 -1"),
    # An argument of another name is Python's own TypeError in 2.2.5, and a 7 is called later.
    ("LambdaCallback(on_trian_start=print)", MIS + "^", "LambdaCallback on_trian_start= "
     "on_train_start"),
    ("LambdaCallback(on_nothing_like_it=print)", MIS + "^", "LambdaCallback on_nothing_like_it= "
     "on_fit_start on_test_batch_end"),
    ("LambdaCallback(on_test_end=7)", MIS + "*", "LambdaCallback on_test_end=7 int function "
     "(trainer, pl_module)"),
]

HOOKS = [
    ("fit(M(), callbacks=[hook('on_train_start', lambda self, a, b, c: 0)])", MIS + "*",
     "Hook.on_train_start a, b, c trainer, pl_module"),
    ("fit(M(), callbacks=[hook('on_fit_start', lambda self, *, speed: 0)])", MIS + "*",
     "Hook.on_fit_start speed trainer, pl_module"),
    ("fit(having(on_train_batch_start=lambda self, batch, batch_idx, unused, more: 0))", MIS + "*",
     "Mine.on_train_batch_start more batch, batch_idx"),
    # As in 1.5 a step may take `optimizer_idx`; 2.2 refuses it with a RuntimeError.
    ("fit(having(training_step=lambda self, batch, batch_idx, optimizer_idx, hiddens: 0))",
     MIS + "^", "Mine.training_step hiddens batch, batch_idx"),
    ("fit(M(), callbacks=[hook('on_train_epoch_ends', lambda self, trainer, pl_module: 0)])",
     MIS + "*", "Hook.on_train_epoch_ends on_train_epoch_end"),
    ("fit(having(on_trian_start=lambda self: 0))", MIS + "*", "Mine.on_trian_start on_train_start"),
    ("fit(having(on_validation_epoch_ned=lambda self: 0))", MIS + "*",
     "Mine.on_validation_epoch_ned on_validation_epoch_end"),
    ("trainer().fit(M(), datamodule=data(on_before_batch_transfers=lambda self, b, i: b))",
     MIS + "*", "Data.on_before_batch_transfers on_before_batch_transfer"),
]

STEPS = [
    ("fit(returning('loss'))", MIS, "training_step 'loss' None"),
    ("fit(returning(0.5))", MIS, "training_step 0.5 tensor"),
    ("fit(returning({'x': 1}))", MIS, "training_step `x` `loss`"),
    ("fit(returning({'loss': 0.5}))", MIS + "*", "training_step `loss` tensor"),
    ("fit(returning(torch.ones(())))", RUN, "loss require grad detached"),
    ("fit(returning(torch.ones(2, requires_grad=True)))", RUN, "scalar"),
    ("fit(manual(lambda self, batch, batch_idx: 'loss'))", MIS, "training_step 'loss' manual"),
    ("fit(having(optimizer_step=lambda self, epoch, batch_idx, optimizer, closure: 0))", MIS,
     "optimizer_step closure optimizer.step"),
    ("fit(having(optimizer_step=lambda self, epoch, batch_idx, optimizer, optimizer_closure: "
     "optimizer.optimizer.step()))", MIS, "optimizer_step closure"),
    ("trainer().validate(M(), [D, D])", RUN, "2 M.validation_step dataloader_idx"),
    ("fit(having(training_step=lambda self, dataloader_iter: None))", MIS + "*",
     "Mine.training_step(dataloader_iter) batch, batch_idx"),
]

OPTIMIZERS = [
    ("fit(optimizing(lambda o, s: 'adam'))", MIS, "configure_optimizers 'adam' optimizer"),
    ("fit(optimizing(lambda o, s: torch.optim.SGD))", MIS, "configure_optimizers SGD optimizer"),
    ("fit(optimizing(lambda o, s: []))", MIS + "*", "configure_optimizers [] optimizer"),
    # On the CPU 2.2.5 takes another precision; with the scaler of torch it refuses the same.
    ("fit(optimizing(lambda o, s: torch.optim.LBFGS(o.param_groups[0]['params'])), "
     "precision='16-mixed')", MIS + "*", "precision='16-mixed' LBFGS bf16-mixed"),
    ("fit(optimizing(lambda o, s: [o, s]))", MIS, "configure_optimizers StepLR optimizer"),
    ("fit(optimizing(lambda o, s: {'optim': o}))", MIS + "*",
     "configure_optimizers optim optimizer"),
    ("fit(optimizing(lambda o, s: ([o], [{'schedule': s}])))", MIS, "schedule scheduler"),
    ("fit(optimizing(lambda o, s: ([o], [{'scheduler': s, 'interval': 'batch'}])))", MIS,
     "interval 'batch' 'step' 'epoch'"),
    ("fit(optimizing(lambda o, s: ([o], [{'scheduler': s, 'frequency': 0}])))", MIS + "*",
     "frequency 0 1"),
    ("fit(optimizing(lambda o, s: ([o], [ReduceLROnPlateau(o)])))", MIS,
     "ReduceLROnPlateau monitor"),
    ("fit(optimizing(lambda o, s: ([o], ['step'])))", MIS + "*",
     "'step' scheduler lr_scheduler_step"),
    ("fit(optimizing(lambda o, s: [o, o]))", RUN, "2 automatic_optimization optimizer_idx"),
    ("fit(optimizing(lambda o, s: ([other()], [s])))", MIS,
     "StepLR optimizer configure_optimizers"),
    ("fit(manual(), D, gradient_clip_val=0.5)", MIS,
     "gradient_clip_val=0.5 automatic_optimization"),
    ("fit(manual(), D, accumulate_grad_batches=2)", MIS,
     "accumulate_grad_batches=2 automatic_optimization"),
    ("fit(having(training_step=lambda self, batch, batch_idx: self.manual_backward(0)))", MIS,
     "manual_backward automatic_optimization"),
]

CHECKPOINTS = [
    ("fit(M(), ckpt_path='nowhere.ckpt')", "FileNotFoundError", "nowhere.ckpt"),
    ("trainer().validate(M(), D, ckpt_path='nowhere.ckpt')", "FileNotFoundError", "nowhere.ckpt"),
    ("M.load_from_checkpoint('nowhere.ckpt')", "FileNotFoundError", "nowhere.ckpt"),
    ("fit(M(), ckpt_path=words('junk'))", MIS + "*", "words.ckpt no checkpoint"),
    ("fit(M(), ckpt_path=words('some words, and then some more'))", MIS + "*",
     "words.ckpt no checkpoint"),
    ("fit(M(), ckpt_path=words(''))", MIS + "*", "words.ckpt no checkpoint"),
    ("fit(M(), ckpt_path=saved({'epoch': 1}))", MIS + "*", "saved.ckpt no checkpoint state_dict"),
    ("fit(M(), ckpt_path=saved(torch.ones(1)))", MIS + "*", "saved.ckpt no checkpoint"),
    ("fit(M(), ckpt_path=weights_only())", "KeyError", "weights only optimizer"),
    ("trainer().validate(M(), D, ckpt_path='best')", "ValueError", "best ModelCheckpoint"),
    ("trainer(callbacks=[ModelCheckpoint()]).validate(M(), D, ckpt_path='best')", "ValueError",
     "validate ckpt_path best saved path"),
    ("trainer(callbacks=[ModelCheckpoint()], fast_dev_run=True).validate(M(), D, "
     "ckpt_path='best')", "ValueError", "validate ckpt_path best fast_dev_run saves"),
    ("trainer().save_checkpoint('x.ckpt')", "AttributeError", "module fit"),
    ("Wide()", "KeyError", "save_hyperparameters 'wide' Wide.__init__ `width`"),
]

METRICS = [  # found out at the end of the first epoch
    ("fit(M(), D, D, callbacks=[EarlyStopping('acuracy')])", RUN, "'acuracy' val"),
    ("fit(M(), D, D, callbacks=[ModelCheckpoint(monitor='acuracy')])", MIS, "'acuracy' val"),
    ("fit(plateau('acuracy'), D, D)", MIS, "'acuracy' val"),
]

BEFORE_A_STEP = MISSING + KINDS + FLAGS + CALLBACKS + HOOKS + STEPS + OPTIMIZERS + CHECKPOINTS


class Misuse(dict):
    """What the rows may use: the implementation's classes, and short ways to misuse them."""

    def __init__(self, impl):
        callbacks = importlib.import_module(impl.name + ".callbacks")
        self.impl, self.steps = impl, 0
        super().__init__(
            torch=torch, DataLoader=DataLoader,
            ReduceLROnPlateau=torch.optim.lr_scheduler.ReduceLROnPlateau,
            M=self.plain_module(), D=DataLoader(torch.ones(8, 2), 2),
            Callback=callbacks.Callback, EarlyStopping=callbacks.EarlyStopping,
            ModelCheckpoint=callbacks.ModelCheckpoint, LambdaCallback=impl.LambdaCallback,
            ModelSummary=impl.ModelSummary, ProgressBar=impl.ProgressBar,
            LightningDataModule=impl.LightningDataModule)
        for name in dir(self):
            if not name.startswith("_") and name not in dir(dict):
                self.setdefault(name, getattr(self, name))

    def plain_module(self):
        misuse = self

        class M(self.impl.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch, batch_idx):
                misuse.steps += 1
                return self.layer(batch).sum()

            def validation_step(self, batch, batch_idx):
                self.log("val", self.layer(batch).sum())

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

        return M

    def trainer(self, **flags):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False,
                 "max_epochs": 1, "accelerator": "cpu"}
        if "ModelCheckpoint" not in str(flags.get("callbacks")):
            quiet["enable_checkpointing"] = False
        return self.impl.Trainer(**{**quiet, **flags})

    def fit(self, module, train="D", val=None, ckpt_path=None, **flags):
        train = self["D"] if isinstance(train, str) else train
        self.trainer(**flags).fit(module, train, val, ckpt_path=ckpt_path)

    def having(self, **methods):
        return type("Mine", (self["M"],), methods)()

    def without(self, name):
        return self.having(**{name: getattr(self.impl.LightningModule, name)})

    def returning(self, value):
        return self.having(training_step=lambda self, batch, batch_idx: value)

    def manual(self, step=None):
        module = self.having(**({"training_step": step} if step else {}))
        module.automatic_optimization = False
        return module

    def optimizing(self, form):
        def configure_optimizers(module):
            optimizer = torch.optim.SGD(module.parameters(), 0.1)
            return form(optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1))

        return self.having(configure_optimizers=configure_optimizers)

    def plateau(self, monitor):
        return self.optimizing(lambda optimizer, _: {
            "optimizer": optimizer, "monitor": monitor,
            "lr_scheduler": self["ReduceLROnPlateau"](optimizer)})

    def other(self):
        return torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)

    def hook(self, name, function):
        return type("Hook", (self["Callback"],), {name: function})()

    def data(self, **methods):
        methods["train_dataloader"] = lambda module: self["D"]
        return type("Data", (self.impl.LightningDataModule,), methods)()

    def Counter(self):
        return type("Counter", (self["Callback"],), {"state_dict": lambda callback: {"n": 1}})()

    def endless(self):
        class Stream(IterableDataset):
            def __iter__(self):
                return iter(torch.ones(9, 2))

        return DataLoader(Stream(), 2)

    def Wide(self):
        class Wide(self["M"]):
            def __init__(self, width=1):
                super().__init__()
                self.save_hyperparameters("wide")

        return Wide()

    def words(self, text):
        with open("words.ckpt", "w") as file:
            file.write(text)
        return "words.ckpt"

    def saved(self, content):
        torch.save(content, "saved.ckpt")
        return "saved.ckpt"

    def weights_only(self):
        trainer = self.trainer()
        trainer.fit(self["M"](), self["D"])
        trainer.save_checkpoint("weights.ckpt", weights_only=True)
        self.steps = 0
        return "weights.ckpt"


@pytest.fixture
def misuse(impl, request, tmp_path, monkeypatch):
    """Ask those who claim what is beyond the editions."""
    ask(request, impl, "beyond")
    logging.getLogger(impl.name).setLevel(logging.ERROR)
    monkeypatch.chdir(tmp_path)
    return Misuse(impl)


def refused(misuse, written, error, words):
    """Evaluate the line and look at the error."""
    try:
        eval(written, dict(misuse))
    except Exception as raised:
        message = str(raised).lower()
        assert type(raised).__name__ == error.rstrip("*^"), raised
        assert [word for word in words.split() if word.lower() not in message] == [], raised
    else:
        pytest.fail("nothing was raised")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written, error, words", BEFORE_A_STEP)
def test_refused_before_a_step(misuse, written, error, words):
    """No training step is lost."""
    refused(misuse, written, error, words)
    assert misuse.steps == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written, error, words", METRICS)
def test_refused_when_it_shows(misuse, written, error, words):
    """A metric that nobody logs is noticed at the first check."""
    refused(misuse, written, error, words)
    assert misuse.steps == 4


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written", ["fit(M(), D, D)", "trainer().validate(M(), D)",
                                     "fit(manual())", "fit(plateau('val'), D, D)",
                                     "trainer(callbacks=[Counter()])"])
def test_the_same_without_misuse(misuse, written):
    """The objects of the rows are fine by themselves."""
    eval(written, dict(misuse))
