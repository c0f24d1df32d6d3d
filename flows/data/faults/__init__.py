"""Real degradations of a video call, one dataclass a fault, chained in physical order. No torch in this folder."""
