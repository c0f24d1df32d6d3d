"""The demo: a fleet notices a weakness, is given a better model and takes it safely, on real video.

`edgeloop demo` starts the embedded platform and the devices, watches, and judges what happened. It acts only as the
surroundings do (light, network, time) and as the makers of two bad candidates; it never acts as an operator.
"""
