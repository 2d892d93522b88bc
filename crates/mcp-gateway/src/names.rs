//! Published names.
