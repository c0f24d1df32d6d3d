"""Files that jobs of a run read, by role."""

PAIRS = "pairs"
SUPERNET = "supernet"
FLOAT = "float weights"
MODEL = "INT8 model"
PARENT_WEIGHTS = "parent's weights"
PARENT_SUPERNET = "parent's supernet"
CALIBRATION = "calibration report"
