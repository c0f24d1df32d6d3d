"""Tens of thousands of light devices in one process, for benches, tests and rehearsals.

A light device speaks the platform's real protocol (poll with ETag, signed state document, ranged download with hash,
trial, feedback) and obeys the contracts' own `choose_target`. It plays no video: what it measures is drawn from a
scenario. Signatures of documents are checked once a process, not once a device; TUF metadata are read once, unchecked:
the real agent's trust is tested elsewhere.
"""
