//! Texts of others, made fit for an answer: nothing in them that a reader does not see, and nothing
//! longer than what it is worth.

mod clean;
mod truncate;

pub use clean::{clean, is_invisible};
pub use truncate::{
    Fitting, first_line, fitting, head, newest_lines, one_line, tail, truncate, truncate_list,
};
