//! nandu-ftl
