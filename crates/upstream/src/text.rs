//! Cleans and truncates texts of others for a response; writes bytes as text.

mod clean;
mod truncate;

pub use clean::{clean, is_invisible, visible};
pub use truncate::{
    Fitting, first_line, fitting, head, hexadecimal, newest_lines, one_line, page, tail, truncate,
    truncate_list,
};
