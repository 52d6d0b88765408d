"""LeRobotDataset v3.0: our episodes written, and anyone's read, without LeRobot."""

from dexprior.data.lerobot.reader import LeRobotFolder
from dexprior.data.lerobot.writer import LeRobotExport, LeRobotExportConfig, export_lerobot

__all__ = ["LeRobotExport", "LeRobotExportConfig", "LeRobotFolder", "export_lerobot"]
