// Runs a fuzz target without libFuzzer: every file of a corpus folder, then seeded mutations of them.
//   TARGET RUNS CORPUS_FOLDER
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

// Sorted, so that a run does not depend on the order of a folder.
std::vector<Bytes> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Bytes> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

std::size_t below(std::size_t bound, Random& random) {
  return static_cast<std::size_t>(random() % bound);
}

Bytes::iterator somewhere(Bytes& bytes, Random& random) {
  return bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1, random));
}

uint8_t any_byte(const std::vector<Bytes>& corpus, Random& random) {
  const Bytes& source = corpus[below(corpus.size(), random)];
  const bool from_corpus = !source.empty() && random() % 4 != 0;
  return from_corpus ? source[below(source.size(), random)] : static_cast<uint8_t>(random());
}

void mutate(Bytes& bytes, const std::vector<Bytes>& corpus, Random& random) {
  switch (random() % 4) {
    case 0:
      bytes.insert(somewhere(bytes, random), any_byte(corpus, random));
      break;
    case 1:
      if (!bytes.empty()) bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size(), random)));
      break;
    case 2:
      if (!bytes.empty()) bytes[below(bytes.size(), random)] = any_byte(corpus, random);
      break;
    default: {
      const Bytes& other = corpus[below(corpus.size(), random)];
      bytes.insert(somewhere(bytes, random), other.begin(), other.end());
    }
  }
}

int run(std::size_t runs, const std::filesystem::path& folder) {
  const std::vector<Bytes> corpus = read_corpus(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s holds no files\n", folder.c_str());
    return 2;
  }
  for (const Bytes& bytes : corpus) LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  Random random(1);
  for (std::size_t i = 0; i < runs; ++i) {
    Bytes bytes = corpus[below(corpus.size(), random)];
    for (std::size_t changes = 1 + below(6, random); changes > 0; --changes) mutate(bytes, corpus, random);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s RUNS CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  return run(std::stoul(argv[1]), argv[2]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
