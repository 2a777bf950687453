#include "profile/settings.hpp"

#include <cohort/host/option_table.hpp>
#include <cohort/sdk/options.hpp>

namespace cohort {
namespace {

constexpr cohort_option kProfileOptions[] = {sdk::option("steps", "int[1..1000000]", "50", "steps in the trace"),
                                             sdk::option("warmup", "int[0..1000000000]", "5", "steps before them")};

std::filesystem::path file_of_fit(const std::filesystem::path& file, int64_t fit) {
  if (fit == 1) return file;
  std::filesystem::path name = file.stem();
  name += "-fit-" + std::to_string(fit);
  name += file.extension();
  return file.parent_path() / name;
}

}  // namespace

std::optional<ProfileSettings> profile_settings(const Options& options, int64_t fit) {
  if (!options.profile) return std::nullopt;
  const host::CheckedOptions checked = host::check_options(kProfileOptions, options.profile->options, "--profile");
  const sdk::Options given("", checked.data(), checked.size());
  return ProfileSettings{.file = file_of_fit(options.profile->name, fit),
                         .steps = static_cast<uint64_t>(given.integer("steps")),
                         .warmup = static_cast<uint64_t>(given.integer("warmup"))};
}

}  // namespace cohort
