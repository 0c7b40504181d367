"""Random numbers: the generator :class:`RNG`, and operators that draw from it (``ndd.random.uniform(range=[0, 1], rng=rng)``)."""

from ..imperative.rng import RNG as RNG
from ..imperative.rng import get_default_rng as get_default_rng
from ..imperative.rng import set_seed as set_seed
