// What `scalai near` puts out, against sh: the same bytes and the same status.

#include <random>

#include "tests/near_end_to_end.h"

namespace near_command_test {

using namespace scalai::testing;
using ::testing::HasSubstr;

using NearCommand = NearEndToEnd;

// What would read or write a copy of some files as if it were the folder.
TEST_F(NearCommand, FoldersAndFilesThatAreWrittenAreRefused) {
  file("a.txt", "b\na\n", {0});
  file("b.txt", "c\n", {1});
  for (const char* pipeline : {"ls", "find . -type f", "grep -r a .", "cat a.txt | du -a ."}) {
    const Outcome outcome = on_hosts(pipeline);
    EXPECT_EQ(outcome.code, 3) << pipeline << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("reads folders, and the source is not whole on this machine"));
    EXPECT_EQ(outcome.out, "");
  }
  for (const char* pipeline : {"sort -o sorted a.txt", "tac a.txt | tee copy | wc -l", "sed -i s/a/x/ a.txt"}) {
    const Outcome outcome = on_hosts(pipeline);
    EXPECT_EQ(outcome.code, 5) << pipeline << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("was written beside copies of the source's files"));
  }
  expect_same("tac a.txt | cat");
}

TEST_F(NearCommand, FilesThatSayNoSizeAreReadWhole) {
  const std::string folder = "/proc/sys/kernel";
  if (!fs::exists(folder + "/ostype")) GTEST_SKIP() << "needs /proc";
  const Outcome outcome = scalai("near " + folder + " -- 'cat ostype osrelease'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, read_all(folder + "/ostype") + read_all(folder + "/osrelease"));
}

// jq goes on with the next file in a value that has begun, and ends at the first that is none.
TEST_F(NearCommand, JqReadsFilesAsOneStream) {
  if (shell("command -v jq").code != 0) GTEST_SKIP() << "needs jq";
  file("a.json", "[1,\n", {0});
  file("b.json", "2]\n", {1});
  file("c.json", "{\"a\": 3}\n", {2});
  file("d.json", "nonsense\n", {0});
  for (const char* pipeline :
       {"jq -c . a.json b.json", "jq -c . d.json c.json", "jq -c . c.json", "jq -c .a b.json c.json"})
    expect_same(pipeline);
}

TEST_F(NearCommand, IsWhatShMakesOfIt) {
  file("a.txt", "b 2\na 1\nb 2\n", {0});
  file("b.txt", "a 1\nc 3", {1});
  file("c.txt", "", {1, 2});
  file("d.txt", "c 3\nd 10\nb 2\n", {0, 2});
  for (const char* pipeline : {"cat *.txt",
                               "cat b.txt a.txt | wc",
                               "cat b.txt | wc -c",
                               "wc *.txt",
                               "wc -l a.txt",
                               "wc -l a.txt c.txt",
                               "wc -wm a.txt d.txt",
                               "grep b *.txt",
                               "grep -c b *.txt",
                               "grep -h b *.txt",
                               "grep -L b *.txt",
                               "grep -l b *.txt",
                               "grep -n b a.txt d.txt",
                               "grep -vh b *.txt | grep -c 1",
                               "grep nosuch *.txt",
                               "grep -q b *.txt",
                               "grep -q x *.txt",
                               "grep b nosuch a.txt",
                               "cat a.txt nosuch",
                               "sort *.txt",
                               "sort -u *.txt",
                               "sort -k2,2n -r *.txt",
                               "sort -s -k1,1 *.txt",
                               "sort *.txt | head -n 2",
                               "sort *.txt | tail -n 2",
                               "sort *.txt | uniq",
                               "sort *.txt | uniq -c",
                               "sort *.txt | uniq -c | sort -rn | head -1",
                               "cat *.txt | uniq -c",
                               "cat *.txt | uniq",
                               "cat a.txt d.txt | head -n 4",
                               "cat *.txt | tail -3",
                               "head -n 1 a.txt",
                               "head -n 1 *.txt",
                               "cat *.txt | cut -d ' ' -f 2",
                               "cut -c1 *.txt | sort | uniq -c",
                               "cat *.txt | tr a-z A-Z",
                               "cat *.txt | tr -s b",
                               "sha256sum *.txt",
                               "md5sum *.txt | sort",
                               "cksum *.txt",
                               "cat -n *.txt",
                               "tail -n 1 b.txt",
                               "uniq a.txt",
                               "uniq -c a.txt",
                               "nl *.txt",
                               "awk '{s += $2} END {print s}' *.txt",
                               "cat *.txt | awk '{print $1}' | sort -u",
                               "cat *.txt | false",
                               "false",
                               "no-such-program",
                               "cat *.txt | no-such-program | wc -l",
                               "cat *.none",
                               "sh -c 'exit 7'",
                               "./a.txt",
                               "cat *.txt | ./a.txt",
                               "/etc | cat",
                               "sh -c 'kill -9 $$'",
                               "sort nosuch a.txt",
                               "cat 'a.txt' \"b.txt\" d\\.txt",
                               "cat [ab].txt ?.txt"}) {
    expect_same(pipeline);
  }
}

TEST_F(NearCommand, NamesAndLinesAreThoseOfSh) {
  file("a.txt", "b 2\na 1\n", {0});
  file("b.txt", "a 1\n", {1});
  for (const char* pipeline : {"cat ./*.txt", "grep -c b ./*.txt", "cat a.txt \\\n b.txt | \\\n w\\\nc", "echo a *.txt",
                               "cat [!a].txt ./[a-b].txt", "cat nosuch/*"})
    expect_same(pipeline);
  for (const char* pipeline : {"cd / | cat a.txt", "echo -n a", "cat ../*", "cat [^a].txt", "cat .*"})
    EXPECT_EQ(here(pipeline).code, 2) << pipeline;
  fs::create_directory(folder_ / "all/d");
  write_all(folder_ / "all/d/x", "x\n");
  const Outcome folder = here("cat *");
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.err, HasSubstr("the pattern fits the folder d,"));
}

TEST_F(NearCommand, ARelativeFolderForTemporaryFilesIsOfTheCaller) {
  file("a.txt", "b\n", {0});
  file("b.txt", "a\n", {1});
  fs::create_directory(folder_ / "tmp");
  const Outcome outcome = shell(fmt::format("cd {} && TMPDIR=tmp '{}/scalai' near {} -- 'sort a.txt b.txt'",
                                            folder_.string(), kPrograms.string(), hosts()));
  EXPECT_EQ(outcome.out, "a\nb\n") << outcome.err;
}

// Random files on random hosts under names that a shell would take apart, and random pipelines.
TEST_F(NearCommand, RandomPipelinesAreWhatShMakesOfThem) {
  const uint64_t first = std::random_device()();
  const std::vector<std::string> names = {"a b",  "$(touch x)", "q'uote",      "\"d\"",    "semi;colon",
                                          "st*r", "-n",         "back\\slash", "\xc3\xa9", "new\nline"};
  const std::vector<std::string> begins = {
      "cat", "grep a", "grep -v b", "grep -ch a", "sort",   "sort -r",       "sort -n -k2",
      "wc",  "wc -c",  "cut -c1-2", "sha256sum",  "cat -A", "sort -u -k1,1", "grep -ho '[a-c]'"};
  const std::vector<std::string> more = {"sort",      "uniq",      "uniq -c",   "wc -l",  "head -n 3",
                                         "tail -n 2", "grep -v c", "cut -c1",   "tr a z", "grep -c b",
                                         "wc",        "sort -rn",  "head -c 5", "cat"};
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
    for (const char* name : {"all", "h0", "h1", "h2"})
      for (const auto& entry : fs::directory_iterator(folder_ / name)) fs::remove(entry.path());
    std::string operands;
    for (size_t i = 1 + below(4); i > 0; --i) {
      const std::string& name = names[below(names.size())];
      std::string text;
      for (size_t k = below(60); k > 0; --k) text += "abc \n\n"[below(6)];
      if (below(10) == 0) text += std::string(1, '\0') + "a\n";
      std::vector<int> where = {static_cast<int>(below(3))};
      if (below(3) == 0) where.push_back((where[0] + 1) % 3);
      if (fs::exists(folder_ / "all" / name)) continue;
      file(name, text, where);
      operands += " " + quoted(name == "-n" && below(4) != 0 ? "./-n" : name);
    }
    std::string pipeline = begins[below(begins.size())] + (below(2) == 0 ? operands : " -- *");
    for (size_t i = below(4); i > 0; --i) pipeline += " | " + more[below(more.size())];
    ::setenv("LC_ALL", below(2) == 0 ? "C" : "C.UTF-8", 1);
    expect_same(pipeline);
    EXPECT_FALSE(fs::exists(folder_ / "all" / "x")) << "a shell read a name";
  }
}

TEST_F(NearCommand, WordsAreNotReadByAShell) {
  const std::string name = "$(touch x); `touch x` & ' \" \n | > y";
  file(name, "in it\n", {0, 1});
  const Outcome outcome = scalai(fmt::format("near {} -- cat {} '|' cut -c1-2", hosts(), quoted(name)));
  EXPECT_EQ(outcome.out, "in\n") << outcome.err;
  for (const char* where : {"", "h0/", "h1/", "all/"})
    for (const char* made : {"x", "y"}) EXPECT_FALSE(fs::exists(folder_ / (std::string(where) + made)));
}

// As sh does, which looks where the files are.
TEST_F(NearCommand, AScriptOfTheSourceComesFirst) {
  file("a.txt", "1\n", {0});
  file("ours.py", "print('of the source')\n", {1});
  fs::create_directory(folder_ / "caller");
  for (const char* name : {"ours.py", "mine.py"})
    write_all(folder_ / "caller" / name, "# scalai-near: by_file: CONCATENATE\nprint('of the caller')\n");
  const auto from_caller = [&](const std::string& words) {
    const Outcome outcome =
        shell(fmt::format("cd {} && '{}/scalai' near {}", quoted(path("caller")), kPrograms.string(), words));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(from_caller(quoted(path("all")) + " -- 'python3 ours.py a.txt'"), "of the source\n");
  EXPECT_EQ(from_caller(hosts({0, 1}) + " -- 'python3 ours.py a.txt'"), "of the source\n");
  EXPECT_EQ(from_caller(hosts({0, 1}) + " -- 'python3 mine.py a.txt'"), "of the caller\n");
}

// Commands that run here have what this machine has, and those of other hosts do the same.
TEST_F(NearCommand, ALocaleThatIsMissingHereIsThatOfNoHost) {
  file("a.txt", "B\nb\n", {0});
  file("b.txt", "a\nA\n", {1});
  ::setenv("LC_ALL", "xx_XX.nosuch", 1);
  expect_same("sort *.txt");
  EXPECT_EQ(on_hosts("sort *.txt").out, "A\nB\na\nb\n");
  EXPECT_EQ(on_hosts("sort *.txt").err, "");
  fs::create_directory(folder_ / "notes");
  write_all(folder_ / "notes/n.textproto", "schema_version: 1 commands: \"locale\" by_file: CONCATENATE share: 0.1");
  program("locale", "echo $LC_ALL");
  const auto locale_on = [&](const std::string& where) {
    return scalai(fmt::format("near {} --annotations={} -- locale a.txt b.txt", where, path("notes"))).out;
  };
  EXPECT_EQ(locale_on(hosts({0, 1})), "C\nC\n");
  EXPECT_EQ(locale_on(quoted(path("all")) + " --jobs=2 --part-size=1B"), "xx_XX.nosuch\nxx_XX.nosuch\n");
  ::setenv("LC_ALL", "C", 1);
}

TEST_F(NearCommand, ADatasetIsTheFilesOfItsIndex) {
  std::string records;
  for (int i = 0; i < 8; ++i) records += fmt::format("{:03}\n", i);
  file("a.bin", records, {0});
  file("b.bin", records, {1});
  file("other.bin", "x", {});
  const Outcome indexed =
      shell(fmt::format("cd {}/all && {}/scalai data index --kind=fixed --record-bytes=4 --out=index a.bin b.bin",
                        folder_.string(), kPrograms.string()));
  ASSERT_EQ(indexed.code, 0) << indexed.err;
  EXPECT_EQ(scalai(fmt::format("near {}/all/index -- 'wc -c *'", folder_.string())).out,
            "32 a.bin\n32 b.bin\n64 total\n");
  EXPECT_EQ(
      scalai(fmt::format("near {0}/all/index --host=h0={0}/h0 --host=h1={0}/h1 --launcher={0}/bin/ssh -- 'sha256sum *'",
                         folder_.string()))
          .out,
      by_sh("sha256sum a.bin b.bin").out);
}

}  // namespace near_command_test
