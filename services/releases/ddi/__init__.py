"""hawkBit's Direct Device Integration API as an adapter: devices that speak it take part in our rollouts.

It translates and decides nothing: who gets what is the state document's choice, what devices say becomes feedback. DDI
devices report no health, so a rollout for them alone has installation counts as its only evidence and pauses for a
person.
"""
