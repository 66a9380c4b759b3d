//! nandu-trace
