//! Both control planes for clients in other processes, until Ctrl-C. Writes `kcp.kubeconfig` and
//! `service.kubeconfig` into the directory that is given, or this one.
#![expect(clippy::print_stdout, reason = "it says where they are")]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use kcp_playground::Playground;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_default());
    fs::create_dir_all(&directory)?;
    let playground = Playground::start().await?;
    for (name, kubeconfig) in [
        ("kcp.kubeconfig", playground.kcp_kubeconfig()),
        ("service.kubeconfig", playground.service_kubeconfig()),
    ] {
        let file = directory.join(name);
        fs::write(&file, kubeconfig.to_string())?;
        println!("{}", file.display());
    }
    tokio::signal::ctrl_c().await?;
    playground.stop().await;
    Ok(())
}
