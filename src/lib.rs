//! The program: all input and output.
