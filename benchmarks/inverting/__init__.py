"""Attacks on what leaves a device: can a picture or a person be got back from the codes of a segment?"""
