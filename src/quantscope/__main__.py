from quantscope.cli import main

main()
