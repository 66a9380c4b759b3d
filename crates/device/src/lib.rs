//! nandu-device
