//! The composition root: who is built from what, and how records become decisions.
