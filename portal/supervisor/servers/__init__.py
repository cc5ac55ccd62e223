"""The stores that `make run` and the tests start where no URL names real ones: how each is found, run and reached."""
