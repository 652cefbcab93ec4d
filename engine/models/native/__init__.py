"""Transformer blocks in C for single positions on a CPU, built with the machine's C compiler if it has one."""
