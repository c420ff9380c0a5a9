"""The device that computes, CPU or GPU: its trial, its failures, its memory. torch is imported only for a GPU."""
