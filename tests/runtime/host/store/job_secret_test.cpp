#include <cohort/host/job_secret.hpp>

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace cohort::host {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr const char* kText = "a secret of many characters";

std::filesystem::path file_with(const TemporaryFolder& folder, const std::string& text, mode_t mode = 0600) {
  const std::filesystem::path path = folder.path() / "secret";
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
  return path;
}

std::string refusal(const Variables& variables) {
  return error_text<UserError>([&] { job_secret(variables); });
}

TEST(JobSecret, IsTheSameFromAFileAVariableAndADescriptor) {
  const TemporaryFolder folder;
  const Key key = JobSecret(kText, "here").key();
  EXPECT_EQ(job_secret({{"COHORT_JOB_SECRET_FILE", file_with(folder, std::string(kText) + "\n")}})->key(), key);
  EXPECT_EQ(job_secret({{"COHORT_JOB_SECRET", kText}})->key(), key);
  const int descriptor = ::memfd_create("secret", 0);
  ASSERT_GT(::write(descriptor, kText, std::string_view(kText).size()), 0);
  for (int reader = 0; reader < 2; ++reader) {  // every rank that inherits it reads it
    EXPECT_EQ(job_secret({{"COHORT_JOB_SECRET_FD", std::to_string(descriptor)}, {"COHORT_JOB_SECRET", "other"}})->key(),
              key);
  }
  ::close(descriptor);
  EXPECT_EQ(job_secret({{"PATH", "/bin"}, {"COHORT_JOB_SECRET", ""}}), std::nullopt);
}

TEST(JobSecret, SaysWhatIsWrongWithOne) {
  const TemporaryFolder folder;
  for (const mode_t mode : {0620U, 0604U, 0644U, 0666U}) {
    EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FILE", file_with(folder, kText, mode)}}),
                HasSubstr("may be read by other users; make it yours alone with chmod 600"));
  }
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FILE", file_with(folder, "short\n")}}),
              HasSubstr("holds fewer than 16 characters, which others could guess; head -c 32 /dev/urandom"));
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FILE", folder.path() / "none"}}), HasSubstr("No such file"));
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FILE", folder.path()}}), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET", "0123456789abcde"}}), HasSubstr("COHORT_JOB_SECRET holds fewer than 16"));
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET", kText}, {"COHORT_JOB_SECRET_FILE", file_with(folder, kText)}}),
              HasSubstr("are both set; unset one of them"));
  for (const char* number : {"1000000", "seven", "-1", "7x"}) {
    EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FD", number}}), HasSubstr("is no open descriptor: what runs between"));
  }
}

TEST(JobSecret, OfAGroupIsOneIfRootLaidItOut) {
  const TemporaryFolder folder;
  const Variables variables{{"COHORT_JOB_SECRET_FILE", file_with(folder, kText, 0440)}};
  if (::geteuid() == 0) {
    EXPECT_EQ(job_secret(variables)->text(), kText);
    ASSERT_EQ(::chown((folder.path() / "secret").c_str(), 54321, 54321), 0);
  }
  EXPECT_THAT(refusal(variables), HasSubstr("may be read by other users"));
}

// Kubernetes mounts a secret as a link to a link, so that a new one replaces it at once.
TEST(JobSecret, IsReadAsKubernetesMountsIt) {
  const TemporaryFolder folder;
  const auto version = folder.path() / "..2026_11_26_01_00_00.123456789";
  std::filesystem::create_directory(version);
  std::filesystem::rename(file_with(folder, kText, 0400), version / "secret");
  std::filesystem::create_directory_symlink(version.filename(), folder.path() / "..data");
  std::filesystem::create_symlink("..data/secret", folder.path() / "secret");
  EXPECT_EQ(job_secret({{"COHORT_JOB_SECRET_FILE", folder.path() / "secret"}})->text(), kText);
  ::chmod((version / "secret").c_str(), 0444);
  EXPECT_THAT(refusal({{"COHORT_JOB_SECRET_FILE", folder.path() / "secret"}}), HasSubstr("may be read by other users"));
}

TEST(JobSecret, RandomOnesDiffer) {
  EXPECT_NE(JobSecret::random().text(), JobSecret::random().text());
  EXPECT_GE(JobSecret::random().text().size(), 32U);
  EXPECT_NE(random_key(), random_key());
}

// RFC 4231 has no vectors of HMAC-SHA-512-256, which is HMAC-SHA-512 cut to 32 bytes; these are the first 32 of
//   printf what | openssl dgst -sha512 -mac HMAC -macopt hexkey:000102...1f
TEST(DerivedKey, IsAnHmac) {
  Key from;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(derived_key(from, "what"),
            (Key{0x20, 0x78, 0x59, 0xad, 0x14, 0x16, 0xb4, 0xee, 0x4a, 0x2f, 0xac, 0xfe, 0x65, 0xec, 0x1e, 0x59,
                 0x26, 0xe7, 0x85, 0xb2, 0xf5, 0xfa, 0x95, 0xfb, 0x27, 0x6a, 0x4e, 0x25, 0x9d, 0xda, 0xf2, 0xcd}));
  EXPECT_NE(derived_key(from, "what"), derived_key(from, "What"));
}

}  // namespace
}  // namespace cohort::host
