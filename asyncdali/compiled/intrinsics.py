"""Functions that Numba lacks for kernels on raw addresses: loads, stores, views, calls, atomics, setjmp.

All arguments and results are integers; an address is an int64. Only kernel modules import this file.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numpy.typing import DTypeLike

from . import kinds
from .kinds import cgutils, from_dtype, intrinsic

I64 = ir.IntType(64)
_IR = {
    kinds.int8: ir.IntType(8),
    kinds.uint8: ir.IntType(8),
    kinds.int16: ir.IntType(16),
    kinds.uint16: ir.IntType(16),
    kinds.int32: ir.IntType(32),
    kinds.uint32: ir.IntType(32),
    kinds.int64: I64,
    kinds.uint64: I64,
    kinds.float32: ir.FloatType(),
    kinds.float64: ir.DoubleType(),
}


def _make_load(kind: Any) -> Any:
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.load(builder.inttoptr(args[0], _IR[kind].as_pointer()))

        return kind(kinds.int64), codegen

    return load


def _make_store(kind: Any) -> Any:
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], _IR[kind].as_pointer()))
            return context.get_dummy_value()

        return kinds.void(kinds.int64, kind), codegen

    return store


load_u8 = _make_load(kinds.uint8)
load_u16 = _make_load(kinds.uint16)
load_i16 = _make_load(kinds.int16)
load_i32 = _make_load(kinds.int32)
load_i64 = _make_load(kinds.int64)
load_f32 = _make_load(kinds.float32)
load_f64 = _make_load(kinds.float64)
store_i32 = _make_store(kinds.int32)
store_i64 = _make_store(kinds.int64)
store_u8 = _make_store(kinds.uint8)
store_i16 = _make_store(kinds.int16)
store_u16 = _make_store(kinds.uint16)
store_f32 = _make_store(kinds.float32)
store_f64 = _make_store(kinds.float64)


def _make_call(count: int) -> Any:
    function_type = ir.FunctionType(I64, [I64] * count)
    signature = kinds.int64(*[kinds.int64] * (count + 1))

    def codegen(context, builder, sig, args):
        target = builder.inttoptr(args[0], function_type.as_pointer())
        return builder.call(target, args[1:])

    if count == 1:

        @intrinsic
        def call(typingctx, target, a):
            return signature, codegen
    elif count == 2:

        @intrinsic
        def call(typingctx, target, a, b):
            return signature, codegen
    else:

        @intrinsic
        def call(typingctx, target, a, b, c):
            return signature, codegen

    return call


call1 = _make_call(1)
"""``call1(function_address, a)``: call a C function with integer or pointer arguments. The result is the raw 64-bit register."""
call2 = _make_call(2)
call3 = _make_call(3)


def c_function(name: str, result: Any, *arguments: Any) -> Any:
    """``c_function("logf", float32, float32)``: call a function of the C library by its symbol.

    Numba may replace its own ``math.log`` by another implementation (vector libraries, folding). This is always the platform's.
    """
    function_type = ir.FunctionType(_IR[result], [_IR[kind] for kind in arguments])
    signature = result(*arguments)

    def codegen(context, builder, sig, args):
        return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), args)

    if len(arguments) == 1:

        @intrinsic
        def function(typingctx, a):
            return signature, codegen
    else:

        @intrinsic
        def function(typingctx, a, b):
            return signature, codegen

    return function


def _make_choice(comparison: Any) -> Any:
    @intrinsic
    def choice(typingctx, a, b):
        def codegen(context, builder, signature, args):
            from numba.cpython.builtins import do_minmax

            return do_minmax(context, builder, signature.args, args, comparison)

        return typingctx.unify_types(a, b)(a, b), codegen

    return choice


smaller = _make_choice(operator.lt)
"""``smaller(a, b)``: the built-in ``min`` of two numbers. Numba would compile ``min`` again for each pair of types."""
larger = _make_choice(operator.gt)
"""``larger(a, b)``: the same for ``max``."""


def _make_fma(kind: Any) -> Any:
    @intrinsic
    def fma(typingctx, a, b, c):
        def codegen(context, builder, signature, args):
            return builder.fma(*args)

        return kind(kind, kind, kind), codegen

    return fma


@intrinsic
def float_of_bits(typingctx, bits):
    """The float32 whose bits are the lower 32 of an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), ir.FloatType())

    return kinds.float32(kinds.int64), codegen


@intrinsic
def bits_of_float(typingctx, value):
    """The bits of a float32, as an int64."""

    def codegen(context, builder, signature, args):
        return builder.zext(builder.bitcast(args[0], ir.IntType(32)), I64)

    return kinds.int64(kinds.float32), codegen


fma32 = _make_fma(kinds.float32)
"""``fma32(a, b, c)``: a * b + c in float32, rounded once (the processor's instruction, or the C library's ``fmaf``)."""
fma64 = _make_fma(kinds.float64)


@intrinsic
def multiply_high(typingctx, a, b):
    """Upper 64 bits of the 128-bit product of two uint64."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)

    return kinds.uint64(kinds.uint64, kinds.uint64), codegen


@intrinsic
def load_big_endian_64(typingctx, address):
    """The 64-bit big-endian number at any address."""

    def codegen(context, builder, signature, args):
        return builder.bswap(builder.load(builder.inttoptr(args[0], I64.as_pointer()), align=1))

    return kinds.int64(kinds.int64), codegen


@intrinsic
def load_little_endian_64(typingctx, address):
    """The 64-bit little-endian number at any address."""

    def codegen(context, builder, signature, args):
        return builder.load(builder.inttoptr(args[0], I64.as_pointer()), align=1)

    return kinds.int64(kinds.int64), codegen


@intrinsic
def shift_left(typingctx, bits, count):
    """An int64 shifted left by the lower 6 bits of `count`. One instruction; Python's operator must handle larger counts."""

    def codegen(context, builder, signature, args):
        return builder.shl(args[0], builder.and_(args[1], I64(63)))

    return kinds.int64(kinds.int64, kinds.int64), codegen


@intrinsic
def shift_right(typingctx, bits, count):
    """The same to the right, with zeros from the left."""

    def codegen(context, builder, signature, args):
        return builder.lshr(args[0], builder.and_(args[1], I64(63)))

    return kinds.int64(kinds.int64, kinds.int64), codegen


@intrinsic
def leading_zeros(typingctx, bits):
    """Number of leading zeros of an int64; 64 for 0."""

    def codegen(context, builder, signature, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return kinds.int64(kinds.int64), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """Index of the lowest set bit of an int64; 64 for 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return kinds.int64(kinds.int64), codegen


@intrinsic
def copy_to_ff(typingctx, target, source):
    """Copy 32 bytes. Returns the index of the first 0xFF among them; 32 if there is none."""
    kind = ir.VectorType(ir.IntType(8), 32)

    def codegen(context, builder, signature, args):
        taken = builder.load(builder.inttoptr(args[1], kind.as_pointer()), align=1)
        builder.store(taken, builder.inttoptr(args[0], kind.as_pointer()), align=1)
        found = builder.icmp_unsigned("==", taken, ir.Constant(kind, [0xFF] * 32))
        mask = builder.zext(builder.bitcast(found, ir.IntType(32)), I64)
        return builder.cttz(builder.or_(mask, I64(1 << 32)), ir.Constant(ir.IntType(1), 1))

    return kinds.int64(kinds.int64, kinds.int64), codegen


@intrinsic
def fetch_add(typingctx, address, amount):
    """Atomic ``old = *address; *address += amount; return old`` on an int64."""

    def codegen(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], I64.as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return kinds.int64(kinds.int64, kinds.int64), codegen


@intrinsic
def copy_bytes(typingctx, target, source, count):
    """C ``memcpy(target, source, count)``. It compiles much faster than an assignment between array views."""

    def codegen(context, builder, signature, args):
        kind = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.inttoptr(args[0], kind), builder.inttoptr(args[1], kind), args[2], 1)
        return context.get_dummy_value()

    return kinds.void(kinds.int64, kinds.int64, kinds.int64), codegen


@intrinsic
def stream_line(typingctx, target, source):
    """Copy 64 bytes with a non-temporal store: `target`, a multiple of 64, is not read into the cache first and does not stay there.

    Such stores become visible to other threads with :func:`finish_streams`."""
    lanes = ir.VectorType(I64, 8)

    def codegen(context, builder, signature, args):
        value = builder.load(builder.inttoptr(args[1], lanes.as_pointer()), align=1)
        stored = builder.store(value, builder.inttoptr(args[0], lanes.as_pointer()), align=64)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return kinds.void(kinds.int64, kinds.int64), codegen


@intrinsic
def finish_streams(typingctx):
    """A full memory fence. Every thread that reads what this one publishes afterwards sees its non-temporal stores."""

    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return kinds.void(), codegen


@intrinsic
def clear_bytes(typingctx, target, count):
    """C ``memset(target, 0, count)``. LLVM makes scatter instructions of a loop over addresses: a tenth of the time of
    decoding a JPEG went there."""

    def codegen(context, builder, signature, args):
        cgutils.memset(builder, builder.inttoptr(args[0], ir.IntType(8).as_pointer()), args[1], 0)
        return context.get_dummy_value()

    return kinds.void(kinds.int64, kinds.int64), codegen


@intrinsic
def setjmp(typingctx, buffer):
    """C ``_setjmp`` on a jump buffer of at least 512 bytes. Returns 0 first, and non-zero when :func:`longjmp` returns here.

    After the jump, the calling function must not use local values that changed since this call. Keep such state in memory.
    """

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [I64])
        function = cgutils.get_or_insert_function(builder.module, kind, "_setjmp")
        function.attributes.add("returns_twice")
        return builder.call(function, args)

    return kinds.int32(kinds.int64), codegen


@intrinsic
def longjmp(typingctx, buffer, value):
    """C ``longjmp``: continue at the :func:`setjmp` that filled `buffer`. Frames in between must not own resources."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.VoidType(), [I64, ir.IntType(32)])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "longjmp"), args)
        return context.get_dummy_value()

    return kinds.void(kinds.int64, kinds.int32), codegen


def _array_over(context: Any, builder: Any, array: Any, data: Any, count: Any) -> Any:
    """An array value over `count` elements at pointer `data`."""
    from numba.np.arrayobj import populate_array

    made = context.make_array(array.of_numba)(context, builder)
    size = context.get_abi_sizeof(data.type.pointee)
    populate_array(made, data=data, shape=[count], strides=[I64(size)], itemsize=size, meminfo=None)
    return made._getvalue()


def _make_view(dtype: DTypeLike) -> Any:
    element = from_dtype(np.dtype(dtype))
    array = kinds.Array(element)

    @intrinsic
    def view(typingctx, address, count):
        def codegen(context, builder, signature, args):
            data = builder.inttoptr(args[0], context.get_data_type(element.of_numba).as_pointer())
            return _array_over(context, builder, array, data, args[1])

        return array(kinds.int64, kinds.int64), codegen

    return view


def local_array(dtype: DTypeLike, count: int) -> Any:
    """``make()``: an uninitialised 1-D array of `count` elements in the frame of the calling function."""
    element = from_dtype(np.dtype(dtype))
    array = kinds.Array(element)

    @intrinsic
    def make(typingctx):
        def codegen(context, builder, signature, args):
            kind = context.get_data_type(element.of_numba)
            return _array_over(context, builder, array, cgutils.alloca_once(builder, kind, size=count), I64(count))

        return array(), codegen

    return make


@intrinsic
def address(typingctx, array):
    """Address of an array's first element. For a :func:`local_array` it is valid only while the function that made it runs."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, args[0]).data, I64)

    return kinds.int64(array), codegen


view_u8 = _make_view(np.uint8)
"""``view_u8(address, count)``: a 1-D array over `count` elements at `address` (no copy, not owned)."""
view_i32 = _make_view(np.int32)
view_u32 = _make_view(np.uint32)
view_i64 = _make_view(np.int64)
view_f32 = _make_view(np.float32)
view_f64 = _make_view(np.float64)


def view_of(dtype: DTypeLike) -> Any:
    """The ``view_*`` function for a numpy dtype (used by kernel factories)."""
    return _make_view(np.dtype(dtype).type)
