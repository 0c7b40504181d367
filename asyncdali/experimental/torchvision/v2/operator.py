"""Classes of your own with code for pipelines, and functions with code for dynamic mode, at DALI's place and by DALI's names."""

from ....vision.operators import ArgumentValidateRule as ArgumentValidateRule
from ....vision.operators import DataValidateRule as DataValidateRule
from ....vision.operators import Operator as Operator
from ....vision.operators import adjust_input as adjust_input
from ....vision.operators import get_HWC_from_layout_dynamic as get_HWC_from_layout_dynamic
from ....vision.operators import get_HWC_from_layout_pipeline as get_HWC_from_layout_pipeline
from ....vision.operators import get_input_shape_dynamic as get_input_shape_dynamic
