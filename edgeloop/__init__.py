"""The root of the command line. It imports none of the parts until one of their commands is asked for."""
