// Checkpoints that were changed and have correct checksums all the same.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <cohort/host/files.hpp>
#include <cohort/safetensors.hpp>

#include "checkpoint/checkpoint_folder.hpp"

namespace cohort::testing {

/// Changes the tensors of a file and corrects the checksums, as a forger would.
inline void forge(const std::filesystem::path& checkpoint, const std::string& name,
                  const std::function<void(NamedTensors&)>& change) {
  NamedTensors tensors = read_safetensors(checkpoint / name).tensors;
  change(tensors);
  write_safetensors(checkpoint / name, tensors);
  Manifest manifest = read_manifest(checkpoint);
  manifest.files[name] = digest_of_file(checkpoint / name);
  host::write_file(checkpoint / kManifestFile, to_json(manifest));
}

}  // namespace cohort::testing
