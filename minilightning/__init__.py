"""minilightning: the training lifecycle of PyTorch Lightning, small enough to read."""
from . import callbacks, loggers
from .callback import Callback
from .errors import MisconfigurationException
from .module import LightningDataModule, LightningModule
from .seed import seed_everything
from .trainer import Trainer

__version__ = "0.1.0"
__all__ = [
    "Callback", "LightningDataModule", "LightningModule", "MisconfigurationException", "Trainer",
    "callbacks", "loggers", "seed_everything",
]
