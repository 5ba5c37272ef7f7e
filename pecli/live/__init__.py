"""Recording what a live torch model computes, and checking an implementation of yours.

Nothing of torch is imported here: the model brings it.
"""
