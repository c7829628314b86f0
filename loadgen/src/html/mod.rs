//! The report as one page: no script, no font, no style sheet from elsewhere, pictures drawn here as inline SVG. Made from the
//! JSON report alone, so a page can be made again from an old report.

mod figures;
mod page;
mod scale;
mod svg;

pub use page::render;
