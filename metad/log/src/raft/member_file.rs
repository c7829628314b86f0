//! Whose data folder this is: a member's vote must never be cast from another member's disk.

use super::StartError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Makes the folder `id`'s, or checks that it is.
pub fn claim(dir: &Path, id: u64) -> Result<(), StartError> {
    fs::create_dir_all(dir)?;
    let path = dir.join("member");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == id.to_string() => Ok(()),
        Ok(found) => Err(StartError::OtherMember { id, found: found.trim().to_owned() }),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            let aside = dir.join("member.tmp");
            let mut file = File::create(&aside)?;
            writeln!(file, "{id}")?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            Ok(File::open(dir)?.sync_all()?)
        }
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_member() {
        let dir = tempfile::tempdir().unwrap();
        claim(dir.path(), 2).unwrap();
        claim(dir.path(), 2).unwrap();
        assert!(matches!(claim(dir.path(), 3), Err(StartError::OtherMember { id: 3, .. })));
    }
}
