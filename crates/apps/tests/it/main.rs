//! Tests of the programs.
