"""The emulated cluster: private world, private Open vSwitch, Mininet, queues, calibration, capture, load."""
