//! nandu-stack
