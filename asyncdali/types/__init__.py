"""Data types, enumerations and constants of the public API, with the names and values of DALI's ``types`` module.

`enums` has the enumerations, `conversions` the types of numpy and other libraries, `scalar`, `constant_values` and `constant` constants.

    constant.py         `types.Constant`: a scalar, or a node of the graph
    constant_values.py  Values of constants: converts Python values, numpy and other arrays to one array and its type
    conversions.py      Names of element types in numpy, torch, jax and Python
    enums.py            The enumerations of the public API, with DALI's names and values
    layout.py           Axis names of tensors
    saturate.py         Conversion between element types with the rules of DALI's constants
    scalar.py           One literal with a chosen type
    stream.py           CUDA streams that other libraries made

May import the positions of `workers` (SampleInfo, BatchInfo); no other room.
"""

from __future__ import annotations

from asyncdali_workers import BatchInfo as BatchInfo
from asyncdali_workers import SampleInfo as SampleInfo

from ..messages.absent import refuser
from .constant import Constant as Constant
from .constant import ConstantNode as ConstantNode
from .constant_values import constant_array as constant_array
from .conversions import to_dali_type as to_dali_type
from .conversions import to_numpy_type as to_numpy_type
from .enums import DALIDataType as DALIDataType
from .enums import DALIImageType as DALIImageType
from .enums import DALIInterpType as DALIInterpType
from .enums import OperatorConcurrency as OperatorConcurrency
from .enums import PipelineAPIType as PipelineAPIType
from .enums import StreamPolicy as StreamPolicy
from .layout import TensorLayout as TensorLayout
from .scalar import _BOOL_KINDS, _FLOAT_KINDS, _INT_KINDS
from .scalar import ScalarConstant as ScalarConstant
from .stream import CUDAStream as CUDAStream

# Members are also names of the module.
NO_TYPE = DALIDataType.NO_TYPE
UINT8 = DALIDataType.UINT8
UINT16 = DALIDataType.UINT16
UINT32 = DALIDataType.UINT32
UINT64 = DALIDataType.UINT64
INT8 = DALIDataType.INT8
INT16 = DALIDataType.INT16
INT32 = DALIDataType.INT32
INT64 = DALIDataType.INT64
FLOAT16 = DALIDataType.FLOAT16
FLOAT = DALIDataType.FLOAT
FLOAT64 = DALIDataType.FLOAT64
BOOL = DALIDataType.BOOL
STRING = DALIDataType.STRING
FEATURE = DALIDataType.FEATURE
IMAGE_TYPE = DALIDataType.IMAGE_TYPE
DATA_TYPE = DALIDataType.DATA_TYPE
INTERP_TYPE = DALIDataType.INTERP_TYPE
TENSOR_LAYOUT = DALIDataType.TENSOR_LAYOUT
PYTHON_OBJECT = DALIDataType.PYTHON_OBJECT
RGB = DALIImageType.RGB
BGR = DALIImageType.BGR
GRAY = DALIImageType.GRAY
YCbCr = DALIImageType.YCbCr
ANY_DATA = DALIImageType.ANY_DATA
INTERP_NN = DALIInterpType.INTERP_NN
INTERP_LINEAR = DALIInterpType.INTERP_LINEAR
INTERP_CUBIC = DALIInterpType.INTERP_CUBIC
INTERP_LANCZOS3 = DALIInterpType.INTERP_LANCZOS3
INTERP_TRIANGULAR = DALIInterpType.INTERP_TRIANGULAR
INTERP_GAUSSIAN = DALIInterpType.INTERP_GAUSSIAN

# DALI's lists of types that have arithmetic. Programs use them, although their names are private.
_bool_types = [*_BOOL_KINDS]
_int_types = [*_INT_KINDS]
_float_types = [*_FLOAT_KINDS]
_int_like_types = [*_bool_types, *_int_types]
_all_types = [*_int_like_types, *_float_types]

# Names of layouts in old programs.
NCHW = "CHW"
NHWC = "HWC"
NFCHW = "FCHW"
NFHWC = "FHWC"
SAME = ""

#: The `device_id` that DALI's backend gives a pipeline without a GPU.
CPU_ONLY_DEVICE_ID = -99999


__getattr__ = refuser(__name__, {"dali_type_converters": "use types.to_dali_type, which knows the types of all frameworks"})
