//! Tests of event parsing.
