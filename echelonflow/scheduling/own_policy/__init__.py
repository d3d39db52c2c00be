"""Users' policy files are code of somebody's: each runs in a process of its own, as nobody, within limits.

`process` is our end, `worker` the other one, `pipe` what is said between them. `sandbox` and `landlock` are what the
worker gives up before it reads a line of the file. Nothing else in this project runs a user's file.
"""
