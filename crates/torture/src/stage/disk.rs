//! A small disk for Postgres that can be filled: a file system in memory, if mounting is permitted.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream_testkit::guard;

const SIZE: &str = "size=1500m,mode=711";
const BALLAST: &str = "ballast";

#[derive(Debug)]
pub enum TestDisk {
    Own {
        mounted: PathBuf,
    },
    /// Mounting is not permitted, so filling is impossible.
    Shared {
        directory: PathBuf,
        why: String,
    },
}

impl TestDisk {
    pub fn mount_at(path: &Path) -> Self {
        std::fs::create_dir_all(path).expect("make a directory");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "millstream-torture"]).arg(path).output();
        let why = match mounted {
            Ok(output) if output.status.success() => {
                guard::watch_mount(path);
                return Self::Own { mounted: path.into() };
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        Self::Shared { directory: path.into(), why }
    }

    pub fn directory(&self) -> &Path {
        match self {
            Self::Own { mounted } => mounted,
            Self::Shared { directory, .. } => directory,
        }
    }

    /// Writes until the disk is full. Returns the number of bytes, or the reason why filling is impossible.
    pub fn fill(&self) -> Result<u64, String> {
        let mounted = match self {
            Self::Own { mounted } => mounted,
            Self::Shared { why, .. } => return Err(format!("no disk of its own: {why}")),
        };
        let mut file = File::create(mounted.join(BALLAST)).map_err(|error| error.to_string())?;
        let (mut written, mut chunk) = (0, vec![0_u8; 1 << 20]);
        // The last pages go in one by one.
        while !chunk.is_empty() {
            match file.write(&chunk) {
                Ok(0) | Err(_) => chunk.truncate(chunk.len() / 2),
                Ok(count) => written += count as u64,
            }
        }
        Ok(written)
    }

    pub fn empty(&self) {
        let _ = std::fs::remove_file(self.directory().join(BALLAST));
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        match self {
            Self::Own { mounted } => {
                let _ = Command::new("umount").arg("-l").arg(&*mounted).status();
                guard::forget_mount(mounted);
            }
            Self::Shared { .. } => {}
        }
    }
}
