"""What agents believe: one store per system, durable, with confidence, source and time to live."""

from mindx.agents.beliefs.belief import Belief, BeliefChange, BeliefEvent, BeliefSource
from mindx.agents.beliefs.system import BeliefSystem

__all__ = ["Belief", "BeliefChange", "BeliefEvent", "BeliefSource", "BeliefSystem"]
