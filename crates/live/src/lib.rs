//! nandu-live
