//! What can be calculated.
