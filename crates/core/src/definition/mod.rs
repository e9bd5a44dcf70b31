//! What users write.
