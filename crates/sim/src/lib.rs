//! nandu-sim
