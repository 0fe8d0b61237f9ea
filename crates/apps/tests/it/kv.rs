//! What single requests do.
