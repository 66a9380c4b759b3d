//! nandu-array
