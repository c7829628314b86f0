//! Compiles `proto/seamlog.proto` with a pure-Rust compiler: no `protoc` to install.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/seamlog.proto");
    let files = protox::compile(["seamlog.proto"], ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
